/** The verification page in a real browser, from another origin than the venue it judges. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import type { VerificationPolicy } from '../../../client/verify/policy'
import { CHECKS_OF_LEADER } from '../../../client/verify/transcript'
import { demoPolicy } from '../../../sandbox/demo/steps'
import { buildPage } from '../../../tools/build_page'
import { VenueProcess } from '../../faults/kit/venue_process'
import { ATTACKS, type AttackTerms, prepareAttack } from '../../kit/verify/attack_corpus'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'
import { changedPolicy } from '../../kit/verify/site'
import { HAVE_CHROMIUM, type OpenedPage, type Outcome, openVerifyPage, type Page } from './chromium'

if (!HAVE_CHROMIUM) console.log('skipped: there is no Chromium on this machine')
const START_MS = 120_000
const OWN_BYTES_MAX = 60_000
test('the page is one file that names its own script and style and lets no other run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-page-'))
  const page = readFileSync(await buildPage(folder), 'utf8')
  rmSync(folder, { recursive: true, force: true })
  expect(page).toMatch(/default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'/)
  expect(page.match(/<script/g)).toHaveLength(1)
  expect(page).not.toMatch(/<script[^>]+src|<link[^>]+stylesheet|@import|url\(/)
  expect(page).not.toMatch(/\bsecure\b|trustless/i)
  const own = page.replace(/<script>[\s\S]*<\/script>/, '')
  expect(own.length).toBeLessThan(OWN_BYTES_MAX)
})

describe.skipIf(!HAVE_CHROMIUM)('in Chromium', () => {
  const venue = new VenueProcess()
  let opened: OpenedPage
  let page: Page

  beforeAll(async () => {
    ;[opened] = await Promise.all([openVerifyPage(), venue.start()])
    page = opened.page
  }, START_MS)
  afterAll(async () => {
    await opened?.close()
    await venue.remove()
  })

  const honest = (): VerificationPolicy => {
    const policy = demoPolicy(venue.facts)
    return changedPolicy(policy, { permitted_skips: [...policy.permitted_skips, 'tls_key_hidden'] })
  }

  const verify = (policy: VerificationPolicy | string, url = venue.facts.url, manifest = '') =>
    opened.verify({
      url,
      manifest,
      policy: typeof policy === 'string' ? policy : JSON.stringify(policy),
      collateral: readFileSync(venue.facts.collateral, 'utf8'),
    })

  test('an honest venue is judged check by check, expected beside found', async () => {
    const { verdict, said, rows, focused } = await verify(honest())
    expect(rows['compose_hash']).toContain('pass')
    expect({ verdict, focused }).toEqual({ verdict: 'partial', focused: true })
    expect(said).toContain("your policy replaced Intel's root")
    expect(rows['enclave']).toContain('simulated, as your policy names its root')
    expect(Object.keys(rows)).toEqual(CHECKS_OF_LEADER.map(([, name]) => name))
    const skipped = Object.keys(rows).filter((name) => rows[name]!.includes('skip\t'))
    expect(skipped).toEqual(['manifest', 'rpc_operators', 'tls_key', 'kms', 'kms_owner', 'location'])
    expect(rows['tls_key']).toContain(`tacit verify ${venue.facts.url} --policy policy.json`)
    const ends = venue.facts.compose_hash.replace(/^(.{8}).*(.{8})$/, '$1…$2')
    expect(rows['compose_hash']!.split(ends)).toHaveLength(3)
    expect(page.faults).toEqual([])
  })

  test('the check a browser cannot make is never a pass', async () => {
    const { verdict, said } = await verify(demoPolicy(venue.facts))
    expect(verdict).toBe('incomplete')
    expect(said).toContain('0 failed')
    expect(said).toContain('Not permitted: 5.3 tls_key (tls_key_hidden)')
  })

  test('a build that the policy does not pin is refused', async () => {
    const { verdict, rows } = await verify(changedPolicy(honest(), { compose_hashes: ['00'.repeat(32)] }))
    expect(verdict).toBe('failed')
    expect(rows['compose_hash']).toContain('fail')
    expect(rows['compose_hash']).toContain('00000000…00000000')
    expect(rows['compose_hash']).toContain('is not pinned')
  })

  test('a manifest at hand must be the measured text and must hide nothing', async () => {
    const text = readFileSync(venue.facts.manifest, 'utf8')
    const measured = await verify(honest(), venue.facts.url, text)
    expect(measured.verdict).toBe('failed')
    // The sandbox runs its sources and not an image.
    expect(measured.rows['manifest']).toContain('services.venue.image: must be an image by digest')
    const changed = await verify(honest(), venue.facts.url, text.replace('SET_ME', 'SET_YOU'))
    expect(changed.rows['manifest']).toContain('the manifest text is not the measured one')
  })

  test("a stand-in is refused under Intel's root", async () => {
    const { verdict, rows } = await verify(changedPolicy(honest(), { roots_pem: undefined }))
    expect(verdict).toBe('failed')
    expect(rows['collateral']).toContain('fail')
  })

  test('a question that cannot be asked gives no verdict, and none is left from before', async () => {
    for (const [policy, url, words] of [
      ['{"compose_hash": []}', venue.facts.url, 'unknown field compose_hash'],
      [honest(), 'https://127.0.0.1:1', 'did not answer'],
    ] as const) {
      const { verdict, said, rows } = await verify(policy, url)
      expect({ verdict, rows }).toEqual({ verdict: null, rows: {} })
      expect(said).toContain(words)
    }
    page.faults.length = 0
  })

  test('a form that changes while the venue is asked gets no answer to the old question', async () => {
    const left = await page.evaluate<number>(`new Promise((resolve) => {
      const button = document.getElementById('verify')
      new MutationObserver((_changes, watcher) => {
        if (button.disabled) return
        watcher.disconnect()
        resolve(document.querySelectorAll('.verdict').length)
      }).observe(button, { attributes: true })
      button.click()
      document.getElementById('policy').dispatchEvent(new Event('input', { bubbles: true }))
    })`)
    expect(left).toBe(0)
  })

  test('opened from a disk and used by keyboard alone it judges too', async () => {
    const alone = await opened.chromium.open(`file://${join(opened.folder, 'index.html')}`)
    const { chain: _chain, ...policy } = demoPolicy(venue.facts)
    await alone.evaluate("document.getElementById('url').focus()")
    await alone.send('Input.insertText', { text: venue.facts.url })
    const press = async (key: string) => {
      for (const type of ['keyDown', 'keyUp'])
        await alone.send('Input.dispatchKeyEvent', { type, key, code: key, ...KEYS[key] })
    }
    await press('Tab')
    await press('Tab')
    await alone.send('Input.insertText', { text: JSON.stringify(policy) })
    await press('Tab')
    await press('Enter')
    await press('Tab')
    await press('Tab')
    await alone.send('Input.insertText', { text: readFileSync(venue.facts.collateral, 'utf8') })
    for (let steps = 0; steps < 3; steps++) await press('Tab')
    const judged = alone.evaluate<string>(`new Promise((resolve) => {
      new MutationObserver(() => {
        const verdict = document.querySelector('.verdict') ?? document.querySelector('#status.fault')
        if (verdict) resolve(verdict.innerText)
      }).observe(document.body, { subtree: true, childList: true, attributes: true })
    })`)
    expect(await alone.evaluate<string>('document.activeElement.id')).toBe('verify')
    await press('Enter')
    expect(await judged).toContain(
      'Not permitted: 5.3 tls_key (tls_key_hidden), 6.1 settlement_signer (chain_unnamed)',
    )
    expect(alone.faults).toEqual([])
  })

  test('the saved evidence is judged the same by the command line', async () => {
    const policy = honest()
    await verify(policy)
    const text = await page.evaluate<string>(`new Promise((resolve) => {
      const create = URL.createObjectURL
      URL.createObjectURL = (file) => { resolve(file.text()); URL.createObjectURL = create; return create(file) }
      document.getElementById('save').click()
    })`)
    const bundle = parseBundle(text)
    expect(bundle.spki_sha256).toBeNull()
    expect((await judgeEvidence(bundle, policy, 'recorded')).verdict).toBe('partial')
  })
})

const KEYS: Record<string, object> = {
  Tab: { windowsVirtualKeyCode: 9 },
  Enter: { windowsVirtualKeyCode: 13, text: '\r' },
}

describe.skipIf(!HAVE_CHROMIUM)('in Chromium', () => {
  let opened: OpenedPage
  let venue: PinnedVenue
  beforeAll(async () => {
    ;[opened, venue] = await Promise.all([openVerifyPage(), openPinnedVenue()])
  }, START_MS)
  afterEach(() => venue.restore())
  afterAll(async () => {
    await opened?.close()
    await venue?.close()
  })

  function verify(attack?: AttackTerms): Promise<Outcome> {
    const { policy, manifest, collateral } = prepareAttack(venue, attack)
    // The one check that a browser cannot make.
    const permitted = changedPolicy(policy, { permitted_skips: ['tls_key_hidden'] })
    return opened.verify({ url: venue.site.url, policy: JSON.stringify(permitted), manifest, collateral })
  }

  test('the honest venue passes every check but the hidden TLS key', async () => {
    const { verdict, failed, rows } = await verify()
    expect({ verdict, failed }).toEqual({ verdict: 'partial', failed: [] })
    const passed = Object.keys(rows).filter((name) => rows[name]!.includes('pass\t'))
    expect(passed).toEqual(CHECKS_OF_LEADER.map(([, name]) => name).filter((name) => name !== 'tls_key'))
  })

  for (const { name, check, reason, ...attack } of ATTACKS)
    test(`${name} fails ${check}`, async () => {
      const { verdict, failed, rows } = await verify(attack)
      expect(verdict).toBe('failed')
      expect(failed).toContain(check)
      const [, row] = CHECKS_OF_LEADER.find(([number]) => number === check)!
      expect(rows[row]).toContain(reason ?? '')
    })
})
