/** Starts a separate headless Chromium, driven over its DevTools protocol, and uses the verification page's form in it. */

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPage } from '../../../tools/build_page'

const PATH = '/usr/bin/chromium'
export const HAVE_CHROMIUM = existsSync(PATH)
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  // Containers give 64 MiB to /dev/shm, where a page that finds no place ends.
  '--disable-dev-shm-usage',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-background-timer-throttling',
  '--disable-renderer-backgrounding',
  '--ignore-certificate-errors',
  // Every host name but that of this machine fails to resolve.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
  '--remote-debugging-port=0',
]
const START_MS_MAX = 100_000
const POLL_MS = 20

export type Chromium = {
  open(url: string): Promise<Page>
  close(): Promise<void>
}
export type Page = {
  /** Sends one command of the protocol. */
  send(method: string, params?: object): Promise<Record<string, unknown>>
  /** Value of an expression in the page; a promise is awaited. */
  evaluate<T>(expression: string): Promise<T>
  /** Errors of the page: faults in scripts and rejections by its content policy. */
  readonly faults: string[]
}

export async function openChromium(): Promise<Chromium> {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-chromium-'))
  const child = Bun.spawn([PATH, ...FLAGS, `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore'],
    // With the temporary folder of this run, which Bun does not hand on by itself.
    env: process.env,
  })
  const port_file = join(folder, 'DevToolsActivePort')
  const deadline = performance.now() + START_MS_MAX
  while (!existsSync(port_file) || !readFileSync(port_file, 'utf8').includes('\n')) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error('Chromium did not start')
    await Bun.sleep(POLL_MS)
  }
  const [port] = readFileSync(port_file, 'utf8').split('\n')
  const sockets: WebSocket[] = []
  return {
    async open(url) {
      const answer = await fetch(`http://127.0.0.1:${port}/json/new?about:blank`, { method: 'PUT' })
      const { webSocketDebuggerUrl } = (await answer.json()) as { webSocketDebuggerUrl: string }
      const socket = new WebSocket(webSocketDebuggerUrl)
      sockets.push(socket)
      const page = await drive(socket)
      await page.send('Page.navigate', { url })
      // A load event may still be that of the empty page before it.
      const is_loaded = `document.readyState === 'complete' && location.href !== 'about:blank'`
      while (url !== 'about:blank' && !(await page.evaluate(is_loaded).catch(() => false)))
        await Bun.sleep(POLL_MS)
      return page
    },
    async close() {
      for (const socket of sockets) socket.close()
      child.kill('SIGKILL')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type Frame = {
  id?: number
  method?: string
  params?: Record<string, unknown>
  result?: Record<string, unknown>
  error?: { message: string }
}

async function drive(socket: WebSocket): Promise<Page> {
  const waiting = new Map<number, (frame: Frame) => void>()
  const faults: string[] = []
  let lost: string | undefined
  /** Answers all that waits: nothing is answered after the end of a page or of Chromium. */
  const fail = (message: string) => {
    lost = message
    for (const answer of waiting.values()) answer({ error: { message } })
    waiting.clear()
  }
  socket.onclose = () => fail('the connection to Chromium ended')
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(String(data)) as Frame
    if (frame.method === 'Inspector.targetCrashed') fail('the page crashed')
    waiting.get(frame.id!)?.(frame)
    waiting.delete(frame.id!)
    if (frame.method === 'Runtime.exceptionThrown') faults.push(JSON.stringify(frame.params))
    const entry = frame.params?.['entry'] as { level?: string; text?: string } | undefined
    if (frame.method === 'Log.entryAdded' && entry?.level === 'error') faults.push(entry.text ?? '')
  }
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = reject
  })
  let sent = 0
  const send: Page['send'] = async (method, params = {}) => {
    if (lost !== undefined) throw new Error(`${method}: ${lost}`)
    const id = ++sent
    const answer = new Promise<Frame>((resolve) => waiting.set(id, resolve))
    socket.send(JSON.stringify({ id, method, params }))
    const { result, error } = await answer
    if (result === undefined) throw new Error(`${method}: ${error?.message}`)
    return result
  }
  for (const domain of ['Page', 'Runtime', 'Log', 'Inspector']) await send(`${domain}.enable`)
  return {
    send,
    faults,
    async evaluate<T>(expression: string) {
      const options = { expression, awaitPromise: true, returnByValue: true, userGesture: true }
      const { result, exceptionDetails } = (await send('Runtime.evaluate', options)) as {
        result: { value: T }
        exceptionDetails?: { exception?: { description?: string } }
      }
      if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description)
      return result.value
    },
  }
}

/** Runs in the page: one act every 20 ms. Links, file choosers and downloads are left out, since they leave the page. */
export async function randomClicks(seed: number, length_ms: number): Promise<number> {
  let state = seed
  const below = (count: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * count)
  }
  const texts = ['', '0', '1', '150', '-1', '1e9', '0.0005', '999999999999999999999', 'x', '{}', '<b>', ' 2 ']
  const end = performance.now() + length_ms
  let acts = 0
  while (performance.now() < end) {
    const all = [
      ...document.querySelectorAll<HTMLElement>('button, input:not([type=file]), textarea, select, summary'),
    ].filter((one) => one.offsetParent !== null && !one.id.startsWith('save'))
    const one = all[below(all.length)]
    if (one instanceof HTMLSelectElement) one.selectedIndex = below(one.options.length)
    else if (one instanceof HTMLInputElement || one instanceof HTMLTextAreaElement)
      one.value = texts[below(texts.length)]!
    else one?.click()
    one?.dispatchEvent(new Event('input', { bubbles: true }))
    one?.dispatchEvent(new Event('change', { bubbles: true }))
    acts++
    await new Promise((done) => setTimeout(done, 20))
  }
  return acts
}

type FormFields = { url: string; policy: string; collateral: string; manifest: string }
/** The page's text afterwards. */
export type Outcome = {
  verdict: string | null
  said: string
  focused: boolean
  /** Text of each row by the name of its check. */
  rows: Record<string, string>
  /** Numbers of the checks that the page shows as failed. */
  failed: string[]
}
export type OpenedPage = {
  /** With the built page, `index.html`. */
  folder: string
  chromium: Chromium
  page: Page
  verify(fields: FormFields): Promise<Outcome>
  close(): Promise<void>
}

/** The page is served from another origin than any venue. */
export async function openVerifyPage(): Promise<OpenedPage> {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-page-'))
  const file = Bun.file(await buildPage(folder))
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(file) })
  const chromium = await openChromium()
  const page = await chromium.open(`http://127.0.0.1:${server.port}/`)
  return {
    folder,
    chromium,
    page,
    verify: (fields) => verifyOn(page, fields),
    async close() {
      await chromium.close()
      await server.stop(true)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function verifyOn(page: Page, fields: FormFields): Promise<Outcome> {
  await page.evaluate(`for (const [id, text] of Object.entries(${JSON.stringify(fields)}))
    document.getElementById(id).value = text`)
  return page.evaluate<Outcome>(`new Promise((resolve) => {
    const done = () => {
      const verdict = document.querySelector('.verdict')
      const fault = document.querySelector('#status.fault')
      if (!verdict && !fault) return
      watcher.disconnect()
      const rows = [...document.querySelectorAll('tr[data-check]')].map((row) => [row.dataset.check, row.innerText])
      const failed = [...document.querySelectorAll('tr[data-result=fail] .number')].map((one) => one.innerText)
      resolve({
        verdict: verdict?.dataset.verdict ?? null,
        said: (verdict ?? fault).innerText,
        focused: document.activeElement === verdict,
        rows: Object.fromEntries(rows),
        failed,
      })
    }
    const watcher = new MutationObserver(done)
    watcher.observe(document.body, { subtree: true, childList: true, attributes: true })
    document.getElementById('verify').click()
  })`)
}
