/** Malformed evidence: every field of a bundle with every wrong value is rejected or judged, and none is an unexpected error. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from '../../../client/connect'
import { type EvidenceBundle, parseBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import { isAccepted, Refused } from '../../../client/verify/transcript'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'

let venue: PinnedVenue
let honest: EvidenceBundle
beforeAll(async () => {
  venue = await openPinnedVenue()
  venue.answerAs()
  const { app_compose, policy, site } = venue
  const collateral = site.machine.agent.collateral()
  honest = (await connect(site.url, policy, { collateral, app_compose })).evidence
})
afterAll(() => venue.close())

type Path = string[]
function* paths(value: unknown, at: Path = []): Generator<Path> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    yield [...at, key]
    yield* paths(inner, [...at, key])
  }
}
function holderOf(bundle: unknown, path: Path): Record<string, unknown> {
  const inner = path.slice(0, -1).reduce((value, key) => (value as Record<string, unknown>)[key], bundle)
  return inner as Record<string, unknown>
}

const WRONG = [
  undefined,
  null,
  -1,
  1.5,
  'x',
  '',
  '00',
  true,
  [],
  {},
  [{}],
  '\ud800',
  'constructor',
  '__proto__',
]
/** No check of this policy reads them: labels, defaults for older bundles, and a program without a pinned hash. */
const UNREAD = [
  'url',
  'info.tacit_version',
  'attestation.vm_config',
  'attestation.enclave',
  'evidences.more',
  'chain.program.data',
  'chain.program_data.sha256',
  'missing',
]

/** Some 1,500 verifications. */
const RUN_MS_MAX = 60_000

test(
  'no field of a bundle crashes the verifier or is believed when it is wrong',
  async () => {
    const believed = new Set<string>()
    for (const path of paths(honest))
      for (const wrong of WRONG) {
        const bundle = structuredClone(honest)
        const holder = holderOf(bundle, path)
        if (JSON.stringify(holder[path.at(-1)!]) === JSON.stringify(wrong)) continue
        holder[path.at(-1)!] = wrong
        try {
          const transcript = await judgeEvidence(
            parseBundle(JSON.stringify(bundle)),
            venue.policy,
            'recorded',
          )
          const label = `${path.join('.')} ${JSON.stringify(wrong)}`
          for (const { number, reason } of transcript.checks)
            expect(`${label} ${number}: ${reason}`).not.toMatch(/: unexpected/)
          if (isAccepted(transcript)) believed.add(path.join('.'))
        } catch (error) {
          expect(error).toBeInstanceOf(Refused)
        }
      }
    expect([...believed].sort()).toEqual(UNREAD.toSorted())
  },
  RUN_MS_MAX,
)
