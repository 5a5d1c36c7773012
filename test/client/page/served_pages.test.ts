/** The pages as a venue of this machine serves them: who may ask, where a call goes, and the browser's view. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LOST_STATUS, PEER_PATH, VENUE_PATH } from '../../../client/page/gateway'
import { buildPage, PAGES, servePages } from '../../../client/page/serve_pages'
import { passwordKey, seal } from '../../../client/wallet/sealed_text'
import { Wallet } from '../../../client/wallet/wallet'
import { toHex } from '../../../protocol/bytes'
import { VenueProcess } from '../../faults/kit/venue_process'
import { type Chromium, HAVE_CHROMIUM, openChromium, type Page, randomClicks } from './chromium'

if (!HAVE_CHROMIUM) console.log('skipped: there is no Chromium on this machine')
const START_MS = 120_000
/** Below the limit of a test, so that a failure names the missing text. */
const SHOWN_MS = 100_000
const KIB = 1024
const venue = new VenueProcess()
beforeAll(() => venue.start(), START_MS)
afterAll(() => venue.remove())

const ask = (path: string, init?: RequestInit) => fetch(venue.facts.pages_url + path, init)
const peerKey = async () => ((await (await ask(PEER_PATH)).json()) as { spki_sha256: string }).spki_sha256

test('each page is one file whose policy lets only its own script run; sizes', async () => {
  for (const name of PAGES) {
    const page = await buildPage(name)
    const bytes = new TextEncoder().encode(page)
    console.log(
      `${name}: ${Math.ceil(bytes.length / KIB)} KiB, ${Math.ceil(Bun.gzipSync(bytes).length / KIB)} compressed`,
    )
    expect(/default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'/.test(page)).toBe(true)
    expect(page.match(/<script(?! type="application\/json")/g)).toHaveLength(1)
    const frame = page.replace(/<script>[\s\S]*<\/script>/, '')
    expect(/<script[^>]+src|<link[^>]+stylesheet|@import|url\(|\sstyle="|\son[a-z]+="/.test(frame)).toBe(
      false,
    )
  }
})

test('a served page begins with public facts only, and reaches only the venue and the named node', async () => {
  const market = await (await ask('/')).text()
  expect(market).toContain("connect-src 'self';")
  expect(market).toContain(`"url":"${venue.facts.url}"`)
  expect(market).not.toMatch(/api_secret|passphrase"/)
  expect((await ask('/')).headers.get('x-frame-options')).toBe('DENY')
})

test('a foreign name, a foreign page and an unknown path reach nothing', async () => {
  expect((await ask(PEER_PATH, { headers: { host: 'evil.example' } })).status).toBe(403)
  expect((await ask(PEER_PATH, { headers: { origin: 'http://evil.example' } })).status).toBe(403)
  expect((await ask('/etc/passwd')).status).toBe(404)
  // A browser's request for an image, a script or a link of another origin, which is not named.
  for (const site of ['cross-site', 'same-site']) {
    const foreign = (mode: string) => ({ headers: { 'sec-fetch-site': site, 'sec-fetch-mode': mode } })
    expect((await ask(PEER_PATH, foreign('no-cors'))).status).toBe(403)
    expect((await ask(`${VENUE_PATH}${await peerKey()}/info`, foreign('navigate'))).status).toBe(403)
    expect((await ask('/trade', foreign('no-cors'))).status).toBe(403)
    expect((await ask('/trade', foreign('navigate'))).status).toBe(200)
  }
})

test('a call reaches the venue under the key that it names, and no other', async () => {
  const key = await peerKey()
  const info = await ask(`${VENUE_PATH}${key}/info`)
  expect(((await info.json()) as { compose_hash: string }).compose_hash).toBe(venue.facts.compose_hash)
  expect((await ask(`${VENUE_PATH}${'00'.repeat(32)}/info`)).status).toBe(LOST_STATUS)
  expect((await ask(`${VENUE_PATH}${key}//evil.example/`)).status).toBe(LOST_STATUS)
})

describe.skipIf(!HAVE_CHROMIUM)('in Chromium', () => {
  let chromium: Chromium
  beforeAll(async () => {
    chromium = await openChromium()
  }, START_MS)
  afterAll(() => chromium?.close())

  const open = (path: string) => chromium.open(venue.facts.pages_url + path)
  /** Text of the first element that `selector` finds once it has text. */
  async function shown(page: Page, selector: string): Promise<string> {
    const deadline = performance.now() + SHOWN_MS
    for (;;) {
      const text = await page.evaluate<string>(
        `document.querySelector(${JSON.stringify(selector)})?.innerText ?? ''`,
      )
      if (text !== '') return text
      if (performance.now() > deadline) throw new Error(`${selector} shows nothing`)
      await Bun.sleep(50)
    }
  }

  test("the market page shows and draws the venue's public facts", async () => {
    const page = await open('/')
    expect(await shown(page, '#instruments table')).toContain('SOL-USDC')
    expect(await shown(page, '#reserves table')).toMatch(/SOL So111111…[\s\S]*USDC EPjFWdd5…/)
    expect(await shown(page, '#builds table')).toContain(venue.facts.compose_hash.slice(0, 8))
    expect(await page.evaluate('document.querySelectorAll("svg[role=img][aria-label]").length')).toBe(8)
    const labels = '[...document.querySelectorAll("svg")].map((one) => one.getAttribute("aria-label")).join()'
    const labelled = await page.evaluate<string>(labels)
    expect(labelled).toMatch(/Auctions held: from \d+ auctions to \d+ auctions/)
    expect(labelled).toContain('Signature to finality, by batch: no data yet')
    expect(await shown(page, '#builds figure')).toContain('epoch 1')
    const widths = '[...document.querySelectorAll("figure")].map((one) => one.offsetWidth)'
    const wide = await page.evaluate<number[]>(widths)
    expect(Math.max(...wide) - Math.min(...wide)).toBeLessThanOrEqual(1)
    expect(await shown(page, '#settlement table')).toMatch(/Epoch[\s\S]*Oldest since slot/)
    expect(page.faults).toEqual([])
  })

  test('the verify page judges the venue by the generated policy, the key of the connection included', async () => {
    const page = await open('/verify')
    await page.evaluate('document.getElementById("verify").click()')
    expect(await shown(page, '.verdict')).toContain('24 passed, 0 failed, 5 skipped')
    expect(await shown(page, 'tr[data-check=tls_key]')).toContain('pass')
    await page.evaluate(`{
      const policy = document.getElementById('policy')
      policy.value = JSON.stringify({ ...JSON.parse(policy.value), compose_hashes: ['${'00'.repeat(32)}'] })
      policy.dispatchEvent(new Event('input', { bubbles: true }))
    }`)
    await page.evaluate('document.getElementById("verify").click()')
    expect(await shown(page, '.verdict.failed')).toContain('Send this venue nothing')
    // Only the failed check explains itself and its remedy.
    expect(await shown(page, 'tr[data-check=compose_hash] .remedy')).toContain('reproduce the image')
    const helped =
      'document.querySelectorAll(".remedy").length === document.querySelectorAll("tr.fail").length'
    expect(await page.evaluate(helped)).toBe(true)
    expect(page.faults).toEqual([])
  })

  /** Types as a person would: the page hears of it. */
  const type = (page: Page, fields: Record<string, string>) =>
    page.evaluate(`for (const [id, text] of Object.entries(${JSON.stringify(fields)})) {
      const field = document.getElementById(id)
      field.value = text
      field.dispatchEvent(new Event('input', { bubbles: true }))
    }`)
  const submit = (page: Page, id: string) => page.evaluate(`document.getElementById('${id}').requestSubmit()`)
  /** Text of `selector` once it matches. */
  async function until(page: Page, selector: string, pattern: RegExp): Promise<string> {
    const deadline = performance.now() + SHOWN_MS
    for (;;) {
      const text = await page.evaluate<string>(`document.querySelector('${selector}')?.innerText ?? ''`)
      if (pattern.test(text)) return text
      if (performance.now() > deadline) throw new Error(`${selector} shows ${text}, not ${pattern}`)
      await Bun.sleep(50)
    }
  }

  test('the trade page refuses a venue of another build and makes no wallet', async () => {
    const page = await open('/trade')
    const wrong = `JSON.stringify({ ...JSON.parse(document.getElementById('policy').value),
      compose_hashes: ['${'00'.repeat(32)}'] })`
    await type(page, { passphrase: 'correct horse', policy: await page.evaluate<string>(wrong) })
    await submit(page, 'unlock')
    expect(await until(page, '#status', /refused/)).toContain('compose_hash')
    expect(await page.evaluate('localStorage.length')).toBe(0)
    expect(page.faults).toEqual([])
  })

  test(
    'where the operator is elsewhere, a new account is shown the request to send, and no page admits it',
    async () => {
      const served = await (await ask('/trade')).text()
      const defaults = JSON.parse(/id="defaults">(.*?)<\/script>/.exec(served)![1]!)
      const pages = servePages({ defaults: { ...defaults, is_laptop: false }, port: 0 })
      try {
        const page = await chromium.open(`${pages.url}/trade`)
        await type(page, { passphrase: 'correct horse' })
        await submit(page, 'unlock')
        await until(page, '#status', /send this to the operator, who admits the account: \{.*"account_key"/)
      } finally {
        await pages.stop()
      }
    },
    START_MS,
  )

  /** `page` ends, and its locks with it; `beside`, of the same origin, sees that. */
  async function leave(page: Page, beside: Page): Promise<void> {
    await page.send('Page.navigate', { url: 'about:blank' })
    const is_held = 'navigator.locks.query().then(({ held }) => held.length > 0)'
    while (await beside.evaluate(is_held)) await Bun.sleep(20)
  }
  /** `page` ends, then its wallet is removed: an open desk would write it again. */
  async function forget(page: Page): Promise<void> {
    const beside = await open('/')
    await leave(page, beside)
    await beside.evaluate('localStorage.clear()')
  }
  async function unlock(page: Page): Promise<void> {
    await type(page, { passphrase: 'correct horse' })
    await submit(page, 'unlock')
    expect(await until(page, '#verdict', /passed/)).toContain('none failed')
  }
  async function startDeposit(page: Page, name: string, amount: string): Promise<void> {
    const choose = `[...document.querySelectorAll('#deposit-mint option')].find((one) => one.text === '${name}').value`
    await type(page, { 'deposit-mint': await page.evaluate<string>(choose), 'deposit-amount': amount })
    await submit(page, 'deposit')
  }
  /** A desk with a new wallet of 1,000 USDC and 10 SOL. */
  async function openDesk(origin: string): Promise<Page> {
    const page = await chromium.open(`${origin}/trade`)
    await unlock(page)
    for (const [name, amount] of [
      ['USDC', '1000'],
      ['SOL', '10'],
    ] as const) {
      await startDeposit(page, name, amount)
      await until(page, '#deposit-status', new RegExp(`^${amount} ${name} are in the vault`))
    }
    return page
  }
  const order = async (page: Page, fields: Record<string, string>) => {
    await type(page, fields)
    await submit(page, 'order')
    return until(page, '#order-status', /^Accepted, with a receipt that was verified/)
  }

  test(
    'a backup is put in place by no page while another one makes or opens the wallet',
    async () => {
      const [maker, restorer] = [await open('/trade'), await open('/trade')]
      await maker.evaluate(`new Promise((locked) => {
      const request = navigator.locks.request.bind(navigator.locks)
      const held = new Promise((done) => { window.release = done })
      navigator.locks.request = (name, how, run) => request(name, how, async (lock) => (locked(), await held, run(lock)))
      document.getElementById('passphrase').value = 'correct horse'
      document.getElementById('unlock').requestSubmit()
    })`)
      const sealed = { salt: '5a'.repeat(16), nonce: '00'.repeat(24), box: 'ab'.repeat(64) }
      const restoring = (sealed: unknown) => `{
      const files = new DataTransfer()
      files.items.add(new File([${JSON.stringify(JSON.stringify({ version: 3, sealed }))}], 'backup.json'))
      const field = document.getElementById('backup')
      field.files = files.files
      field.dispatchEvent(new Event('change'))
    }`
      const restore = restoring(sealed)
      await restorer.evaluate(restore)
      await until(restorer, '#status', /another page has this wallet open/)
      await maker.evaluate('window.release()')
      expect(await until(maker, '#verdict', /passed/)).toContain('none failed')
      await leave(maker, restorer)
      await restorer.evaluate(restore)
      await until(restorer, '#status', /this browser has a wallet/)
      // A passphrase that was mistyped keeps no other page from it.
      await type(restorer, { passphrase: 'another phrase' })
      await submit(restorer, 'unlock')
      await until(restorer, '#status', /passphrase is another/)
      const again = await open('/trade')
      await unlock(again)
      await forget(again)
      // A wallet that a program made has no key for fees: the page makes one, and keeps it.
      const { seed, state } = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
      const content = JSON.stringify({ seed: toHex(seed), state })
      const last = await open('/trade')
      await last.evaluate(restoring(seal(content, passwordKey('correct horse'))))
      await until(last, '#status', /backup is in place/)
      await unlock(last)
      await forget(last)
    },
    START_MS,
  )

  test('a desk that fails to open is closed whole; pages that end amid a deposit or an order, or lose the venue', async () => {
    const page = await openWithin('/trade', UNLUCKY)
    await type(page, { passphrase: 'correct horse' })
    await submit(page, 'unlock')
    await until(page, '#status', /BigInt/)
    expect(await page.evaluate('document.getElementById("desk").hidden')).toBe(true)
    await unlock(page)
    await startDeposit(page, 'USDC', '100')
    await until(page, '#deposit-status', /^100 USDC are in the vault/)
    const asked = await page.evaluate<string[]>('window.asked')
    expect(asked.filter((url) => url.includes('/orders?status=open'))).toHaveLength(2)
    // The newest hours, not the first ones of the venue.
    const since = Number(
      /statistics\?after=(\d+)/.exec(asked.find((url) => url.includes('/statistics'))!)?.[1],
    )
    expect(Date.now() / 1000 - since).toBeLessThan(201 * 3_600)

    await set(page, 'sent = false; window.other')
    await startDeposit(page, 'USDC', '1000')
    await isSet(page, 'sent')
    await openAgain(page)
    await until(page, '#balance', /USDC\s+1100\s+0\s+2/)
    expect(await until(page, '#deposit-status', /./)).toBe(
      '1000 USDC of an earlier deposit are in the vault.',
    )

    await set(page, 'hold')
    await type(page, { side: 'buy', amount: '0.1', price: '140' })
    await submit(page, 'order')
    await isSet(page, 'held')
    await openAgain(page)
    await until(page, '#order-status', /^An earlier request: Accepted/)
    await until(page, '#orders', /140 USDC\s+0 SOL\s+accepted/)

    // A possibly different process is judged again.
    const judged = `window.asked.filter((url) => url.includes('/attestation')).length`
    const before = await page.evaluate<number>(judged)
    await set(page, 'breaks')
    await order(page, { side: 'buy', amount: '0.1', price: '139' })
    expect(await page.evaluate<number>(judged)).toBeGreaterThan(before)

    venue.signal('SIGSTOP')
    expect(await until(page, '#connection', /./)).toMatch(
      /^No connection to the venue: what is shown is of [0-9:]{8} UTC or before/,
    )
    venue.signal('SIGCONT')
    await until(page, '#connection', /^$/)
    expect(page.faults.filter((fault) => !fault.startsWith('Failed to load resource'))).toEqual([])
    await forget(page)
  }, 600_000)

  test('two wallets made in pages are funded, trade with each other, cancel, and open by their passphrase only', async () => {
    const page = await openDesk(venue.facts.pages_url)
    // Another name of this machine is another origin, with separate storage.
    const other = await openDesk(venue.facts.pages_url.replace('127.0.0.1', 'localhost'))
    expect(await until(page, '#balance', /1000/)).toMatch(/SOL\s+10\s+0\s+1[\s\S]*USDC\s+1000\s+0\s+1/)
    await type(page, { side: 'buy', amount: '1', price: '150' })
    expect(await until(page, '#preview', /Backed by/)).toContain(
      '150.075 USDC, a fee of at most 0.05 % included',
    )
    await type(page, { side: 'sell' })
    expect(await until(page, '#preview', /1 SOL/)).toContain(
      'a fee of at most 0.05 % taken from the proceeds',
    )
    await type(page, { side: 'buy' })
    await order(page, {})
    await order(other, { side: 'sell', amount: '1', price: '150' })
    await until(page, '#fills', /SOL-USDC\s+buy 1 SOL\s+150 USDC\s+(0.0375|0.075) USDC\s+finalized/)
    await until(other, '#fills', /SOL-USDC\s+sell 1 SOL\s+150 USDC\s+(0.0375|0.075) USDC\s+finalized/)
    await until(page, '#balance', /SOL\s+11\s+0/)
    await order(page, { side: 'buy', amount: '1', price: '140' })
    await until(page, '#orders', /buy limit\s+1 SOL\s+140 USDC\s+0 SOL/)
    for (const [path, shot] of [
      ['/', await open('/')],
      ['/trade', page],
      ['/verify', await open('/verify')],
    ] as const)
      await keepShots(path.slice(1) || 'market', shot)
    await page.evaluate('kept = document.querySelector("#orders button"); kept.click()')
    await until(page, '#orders', /140 USDC\s+0 SOL\s+cancelled/)
    // The button of a list that is out of date.
    await page.evaluate('kept.disabled = false; kept.click()')
    await until(page, '#order-status', /^order_final: The order is already final/)
    expect([...page.faults, ...other.faults].filter((fault) => fault !== REFUSED)).toEqual([])

    const kept = await page.evaluate<string>('JSON.stringify(localStorage)')
    expect(kept).not.toMatch(/seed|amount|api_secret/)
    // For another vault at the same address the page makes another wallet.
    const { genesis_hash, config_account } = (await (
      await ask(`${VENUE_PATH}${await peerKey()}/info`)
    ).json()) as Record<string, string>
    expect(Object.keys(JSON.parse(kept))).toEqual([`tacit wallet ${genesis_hash}/${config_account}`])
    const again = await open('/trade')
    await type(again, { passphrase: 'correct horse' })
    await submit(again, 'unlock')
    expect(await until(again, '#status', /another page/)).toContain('close it first')
    await leave(page, again)
    await type(again, { passphrase: 'another phrase' })
    await submit(again, 'unlock')
    await until(again, '#status', /passphrase is another/)
    await type(again, { passphrase: 'correct horse' })
    await submit(again, 'unlock')
    expect(await until(again, '#orders', /cancelled/)).toContain('buy limit')
    await clickAround(again, other)
  }, 900_000)

  /** A page whose calls go through `within`, an async function of the real call, its URL and its options. */
  async function openWithin(path: string, within: string): Promise<Page> {
    const page = await chromium.open('about:blank')
    const source = `{ const real = fetch; window.fetch = (url, init) => (${within})(() => real(url, init), String(url), init) }`
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source })
    await page.send('Page.navigate', { url: venue.facts.pages_url + path })
    await until(page, 'h1', /./)
    return page
  }
  /** As the one who closes the page, or whose machine ends, at this moment. */
  async function openAgain(page: Page): Promise<void> {
    await leave(page, await open('/'))
    await page.send('Page.navigate', { url: `${venue.facts.pages_url}/trade` })
    await until(page, '#enter', /Open wallet/)
    await unlock(page)
  }
  const set = (page: Page, name: string) => page.evaluate(`window.${name} = true`)
  async function isSet(page: Page, name: string): Promise<void> {
    while (!(await page.evaluate<boolean>(`window.${name} === true`))) await Bun.sleep(5)
  }

  test(
    'a market page shows the days of each instrument under its name, and says that it is not current when its venue hangs',
    async () => {
      const page = await openWithin(
        '/',
        `async (go, url, init) => {
        if (window.hangs) return new Promise((_, reject) =>
          init?.signal?.addEventListener('abort', () => reject(init.signal.reason)))
        const answer = await go()
        if (!url.endsWith('/transparency')) return answer
        const shown = await answer.json()
        const day = '2026-11-26'
        shown.statistics.days = [{ symbol: 'SOL-USDC', day, volume: '2000000000' }, { symbol: 'OTHER', day, volume: '7' }]
        return Response.json(shown)
      }`,
      )
      await until(page, '#status', /Not verified/)
      const days = '[...document.querySelectorAll("#days svg")].map((one) => one.getAttribute("aria-label"))'
      expect(await page.evaluate<string[]>(days)).toEqual(['SOL-USDC: volume by UTC day, in SOL: 11-26 2'])
      await set(page, 'hangs')
      await until(page, '#status', /^Not current, the venue did not answer as it should/)
      expect(page.faults).toEqual([])
    },
    START_MS,
  )

  /** Desktop, 375 px and dark, in the folder that `TACIT_SHOTS` names. No page is wider than its screen. */
  async function keepShots(name: string, page: Page): Promise<void> {
    // A page in the background is not painted: a picture of it never comes.
    await page.send('Page.bringToFront')
    if (name === 'verify') await page.evaluate('document.getElementById("verify").click()')
    await shown(page, name === 'market' ? '#builds table' : name === 'verify' ? '.verdict' : '#orders table')
    for (const [kind, width, theme] of SHOTS) {
      const mobile = { deviceScaleFactor: 1, mobile: width < 500 }
      await page.send('Emulation.setDeviceMetricsOverride', { width, height: 900, ...mobile })
      const features = [{ name: 'prefers-color-scheme', value: theme }]
      await page.send('Emulation.setEmulatedMedia', { features })
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
      if (SHOTS_FOLDER === undefined) continue
      const { data } = await page.send('Page.captureScreenshot', { captureBeyondViewport: true })
      await Bun.write(`${SHOTS_FOLDER}/${name}-${kind}.png`, Buffer.from(String(data), 'base64'))
    }
  }

  /** Clicks, types and submits by a printed seed for `TACIT_CLICK_S` seconds: no page reports an uncaught error. */
  async function clickAround(...desks: Page[]): Promise<void> {
    const seed = Number(process.env['TACIT_CLICK_SEED'] ?? Date.now() % 2 ** 31)
    console.log(`clicks for ${CLICK_S} s by seed ${seed}`)
    const pages = [...desks, await open('/'), await open('/verify')]
    const acts = await Promise.all(
      pages.map((page, at) => page.evaluate<number>(`(${randomClicks})(${seed + at}, ${CLICK_S * 1000})`)),
    )
    console.log(`${acts.join(' + ')} acts`)
    expect(Math.min(...acts)).toBeGreaterThan(CLICK_S)
    const expected = [REFUSED, NO_HOST]
    expect(pages.flatMap(({ faults }) => faults).filter((fault) => !expected.includes(fault))).toEqual([])
  }
})

/** Calls of a desk that fail once each, are held, or find nothing yet. */
const UNLUCKY = `async (go, url, init) => {
  const [is_order, is_deposit] = [url.endsWith('/orders') && init?.method === 'POST', String(init?.body).includes('sendTransaction')]
  if (url.includes('/statistics') && !sessionStorage.failed) {
    sessionStorage.failed = 'once'
    const row = { start_unix_s: 3600, close: '1.5', volume: '1' }
    return Response.json({ items: [row], next_after: null, signed: null })
  }
  window.asked = [...(window.asked ?? []), url]
  if (window.breaks && is_order) {
    window.breaks = false
    window.differs = true
    throw new TypeError('the connection is lost')
  }
  if (window.differs && url.endsWith('/info')) {
    window.differs = false
    return Response.json({})
  }
  // The first look for an earlier deposit finds none yet.
  if (String(init?.body).includes('getSignaturesForAddress') && !sessionStorage.looked) {
    sessionStorage.looked = 'once'
    return Response.json({ jsonrpc: '2.0', id: JSON.parse(init.body).id, result: [] })
  }
  if (is_order && window.hold) return new Promise(() => { window.held = true })
  const answer = await go()
  if (is_deposit) window.sent = true
  return answer
}`
/** The browser's log of an answer that the page shows. */
const REFUSED = 'Failed to load resource: the server responded with a status of 409 (Conflict)'
/** Of an address that was typed by chance. */
const NO_HOST = 'Failed to load resource: net::ERR_NAME_NOT_RESOLVED'
const SHOTS_FOLDER = process.env['TACIT_SHOTS']
const CLICK_S = Number(process.env['TACIT_CLICK_S'] ?? 5)
const SHOTS = [
  ['desktop', 1280, 'light'],
  ['375', 375, 'light'],
  ['dark', 1280, 'dark'],
] as const
