/** The pages as a venue of this machine serves them: who may ask, where a call goes, and what a browser shows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { buildPage, PAGES } from '../../../client/page/build_page'
import { LOST_STATUS, PEER_PATH, VENUE_PATH } from '../../../client/page/gateway_paths'
import { VenueProcess } from '../../faults/kit/venue_process'
import { type Chromium, HAVE_CHROMIUM, openChromium, type Page } from './chromium'

if (!HAVE_CHROMIUM) console.log('skipped: there is no Chromium on this machine')
const START_MS = 60_000
const SHOWN_MS = 20_000
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
    expect(page).toMatch(/default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'/)
    expect(page.match(/<script(?! type="application\/json")/g)).toHaveLength(1)
    expect(page).not.toMatch(/<script[^>]+src|<link[^>]+stylesheet|@import|url\(|\sstyle="|\son[a-z]+="/)
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

  test('the market page shows what the venue publishes, and draws it', async () => {
    const page = await open('/')
    expect(await shown(page, '#instruments table')).toContain('SOL-USDC')
    expect(await shown(page, '#builds table')).toContain(venue.facts.compose_hash.slice(0, 8))
    expect(await page.evaluate('document.querySelectorAll("svg[role=img][aria-label]").length')).toBe(5)
    expect(page.faults).toEqual([])
  })

  test('the verify page judges the venue by the generated policy, the key of the connection included', async () => {
    const page = await open('/verify')
    await page.evaluate('document.getElementById("verify").click()')
    expect(await shown(page, '.verdict')).toContain('0 failed')
    expect(await shown(page, 'tr[data-check=tls_key]')).toContain('pass')
    await page.evaluate(`{
      const policy = document.getElementById('policy')
      policy.value = JSON.stringify({ ...JSON.parse(policy.value), compose_hashes: ['${'00'.repeat(32)}'] })
      policy.dispatchEvent(new Event('input', { bubbles: true }))
    }`)
    await page.evaluate('document.getElementById("verify").click()')
    expect(await shown(page, '.verdict.failed')).toContain('Send this venue nothing')
    expect(page.faults).toEqual([])
  })
})
