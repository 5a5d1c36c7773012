/** The corpus of attacks in a real browser: the page shows the number of the check that each attack fails. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { CHECKS_OF_LEADER } from '../../../client/verify/transcript'
import { ATTACKS, type AttackTerms, prepareAttack } from '../../kit/verify/attack_corpus'
import { changedPolicy } from '../../kit/verify/changed_policy'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'
import { HAVE_CHROMIUM } from './chromium'
import { type OpenedPage, type Outcome, openVerifyPage } from './page_form'

const START_MS = 120_000

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
