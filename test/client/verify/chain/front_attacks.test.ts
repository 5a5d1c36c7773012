/** Through a node that follows a client judges that node and the one that leads, and neither stands in for the other. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { VerificationFailed } from '../../../../client/verified_venue'
import { EvidenceUnavailable } from '../../../../client/verify/collect/collect_evidence'
import { parseBundle } from '../../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../../client/verify/judge_evidence'
import type { VerificationPolicy } from '../../../../client/verify/policy'
import { CHECKS_OF_LEADER, isAccepted, Refused, transcriptText } from '../../../../client/verify/transcript'
import { certificateOf, identityOf, verifyReceipt } from '../../../../client/verify/verify_receipt'
import type { Enclave } from '../../../../enclave/contract'
import { generateTls } from '../../../../enclave/x509'
import { encodeBase58 } from '../../../../protocol/base58'
import { fromHex, toHex } from '../../../../protocol/bytes'
import { NONCE_PATH_MAX } from '../../../../protocol/limits'
import { JointNonce, pathOf } from '../../../../protocol/tdx/quote'
import type { Info } from '../../../../protocol/wire/public'
import { openOn } from '../../../enclave/machine'
import { openSite, SITE_SKIPS, type Site } from '../../../kit/verify/site'
import { LyingNode } from '../../lying_node'

let site: Site
let front: Enclave
let info: Info
/** The leading node's own answer, for any path. */
let leaderAnswer: (nonce?: string) => Promise<string>
beforeAll(async () => {
  site = await openSite()
  front = await openOn(site.machine.agent)
  info = JSON.parse(String(await site.answers.get('/info')!(undefined)))
  front.follow({ venue: fromHex(info.venue, 32)!, slot: () => 5 })
  const attest = site.answers.get('/attestation')!
  leaderAnswer = async (nonce) =>
    JSON.stringify({ info, attestation: JSON.parse(String(await attest(nonce))) })
})
afterEach(() => {
  site.restore()
  site.answers.delete('/attestation/leader')
})
afterAll(async () => {
  await front.close()
  await site.close()
})

const infoOf = (enclave: Enclave, epoch: number): Info => ({
  ...info,
  tee_pubkey: encodeBase58(enclave.identity.tee_pubkey),
  epoch,
})
/** The site is that node from now on, with the leading one behind it. */
function serve(node = front): void {
  site.answers.set('/info', () => JSON.stringify(infoOf(node, 0)))
  site.answers.set('/attestation', async (nonce) => JSON.stringify(await node.attestation(nonce)))
  for (const name of node.evidenceNames())
    site.answers.set(`/evidences/${name}`, () => node.evidence(name)!.body)
  site.answers.set('/attestation/leader', leaderAnswer)
  site.swapTls(node.tls)
}
const showLeader = (node: Enclave, epoch: number) =>
  site.answers.set('/attestation/leader', async (nonce) =>
    JSON.stringify({ info: infoOf(node, epoch), attestation: await node.attestation(nonce) }),
  )

/** Failed checks; those of the leading node behind `leading`. */
async function failures(change: Partial<VerificationPolicy> = {}): Promise<string[]> {
  try {
    await site.connect(change)
    return []
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const { checks } = error.transcript
    return checks
      .filter(({ result }) => result === 'fail')
      .map(({ name, leading }) => `${leading ? 'leading ' : ''}${name}`)
  }
}
/** Another boot on the machine of the venue, which is no node of it. */
async function withBoot(epoch: number, use: (boot: Enclave) => Promise<void>): Promise<void> {
  const boot = await openOn(site.machine.agent)
  try {
    await boot.bind({ venue: fromHex(info.venue, 32)!, epoch, slot: () => 5 })
    await use(boot)
  } finally {
    await boot.close()
  }
}

test('through a node that follows both are judged, and receipts are those of the leading one', async () => {
  serve()
  const venue = await site.connect()
  const { transcript, evidence } = venue
  const numbers = (leading?: true) =>
    transcript.checks.filter((check) => check.leading === leading).map(({ number }) => number)
  const all = CHECKS_OF_LEADER.map(([number]) => number)
  expect(numbers()).toEqual(all)
  expect(numbers(true)).toEqual(all.filter((number) => number !== '5.3' && number !== '5.4'))
  expect(transcriptText(transcript)).toContain('the leading node, which signs receipts:')
  expect([venue.info, evidence.info, evidence.leader!.info]).toEqual([info, infoOf(front, 0), info])
  expect(evidence.leader!.nonce).not.toBe(evidence.nonce)

  const leading = JSON.parse(await leaderAnswer())
  expect(identityOf(venue)).toEqual(identityOf(leading))
  // Accepted evidence names the leading node alone, too.
  expect(identityOf(evidence)).toEqual(identityOf(leading))
  expect(certificateOf(evidence)).toEqual(certificateOf(leading))
  expect(() => identityOf({ attestation: evidence.attestation })).toThrow('no epoch')

  const again = await judgeEvidence(parseBundle(JSON.stringify(evidence)), site.policy, 'recorded')
  expect(again.checks).toEqual(transcript.checks)
})

test('a node of epoch 0 signs no receipt', async () => {
  const receipt = {
    epoch: 0,
    seq: 1,
    index: 0,
    head: '00'.repeat(32),
    root: '00'.repeat(32),
    path: [],
    signature: '00'.repeat(64),
  }
  const identity = { venue: new Uint8Array(32), statement_key: new Uint8Array(32), epoch: 0n }
  expect(await verifyReceipt(receipt, identity, new Uint8Array(1)).catch(String)).toMatch(
    /no node that leads/,
  )
})

test('a node that follows shows its own keys as those of the leading one: rejected by the vault', async () => {
  serve()
  showLeader(front, 0)
  expect(await failures()).toEqual(['leading settlement_signer'])
  showLeader(front, 1)
  expect(await failures()).toEqual(['leading binding'])
  await withBoot(1, async (boot) => {
    showLeader(boot, 1)
    expect(await failures()).toEqual(['leading settlement_signer'])
  })
  // Without a chain nothing proves a signer, and epoch 0 is of none all the same.
  const permitted_skips = [...SITE_SKIPS, 'chain_unnamed' as const]
  showLeader(front, 0)
  expect(await failures({ chain: undefined, permitted_skips } as never)).toEqual([
    'leading settlement_signer',
  ])
})

test('the leading node of another venue is rejected, with and without a chain', async () => {
  serve()
  const other = await openSite()
  try {
    const foreign = JSON.parse(String(await other.answers.get('/info')!(undefined)))
    site.answers.set('/attestation/leader', async (nonce) =>
      JSON.stringify({
        info: foreign,
        attestation: JSON.parse(String(await other.answers.get('/attestation')!(nonce))),
      }),
    )
    const failed = await failures()
    expect(failed).toContain('following')
    expect(failed).toContain('leading quote')
  } finally {
    await other.close()
  }
  site.answers.set('/attestation/leader', async (nonce) => {
    const { info, attestation } = JSON.parse(await leaderAnswer(nonce))
    return JSON.stringify({ info: { ...info, venue: '11'.repeat(32) }, attestation })
  })
  const permitted_skips = [...SITE_SKIPS, 'chain_unnamed' as const]
  expect(await failures({ chain: undefined, permitted_skips } as never)).toEqual([
    'following',
    'leading binding',
  ])
})

test('an answer of the leading node for another caller, or for the nonce of the node that follows, is rejected', async () => {
  serve()
  const old = await leaderAnswer('11'.repeat(32))
  site.answers.set('/attestation/leader', () => old)
  expect(await failures()).toEqual(['leading report_data', 'leading binding'])
  const plain = await leaderAnswer()
  site.answers.set('/attestation/leader', () => plain)
  expect(await failures()).toEqual(['leading report_data', 'leading binding'])
  let own = ''
  site.answers.set('/attestation', async (nonce) => {
    own = nonce!
    return JSON.stringify(await front.attestation(nonce))
  })
  site.answers.set('/attestation/leader', () => leaderAnswer(own))
  expect(await failures()).toEqual(['leading report_data', 'leading binding'])
})

const OTHERS = ['44', '55', '66'].map((byte) => byte.repeat(32))
/** As callers share a quote: the root asked for all of them, and the path of each. */
function joint(...nonces: string[]) {
  const all = new JointNonce()
  const leaves = nonces.map((one) => all.add(fromHex(one, 32)!))
  return { nonce: toHex(all.close()), paths: leaves.map((leaf) => pathOf(leaf).map(toHex)) }
}

test('a quote that callers share is as good as one for each, and no older answer is one for a new nonce', async () => {
  serve()
  const [old, next] = [joint(...OTHERS), (own: string) => joint(own, ...OTHERS)]
  const answered = async (nonce: string, nonce_path: unknown, change: object = {}) => {
    const { info, attestation } = JSON.parse(await leaderAnswer(nonce))
    return JSON.stringify({ info, attestation: { ...attestation, nonce_path, ...change } })
  }
  const shows = async (answer: (own: string) => Promise<string>) => {
    site.answers.set('/attestation/leader', (nonce) => answer(nonce!))
    return failures()
  }
  expect(await shows((own) => answered(next(own).nonce, next(own).paths[0]))).toEqual([])
  site.answers.set('/attestation', async (own) => {
    const { nonce, paths } = next(own!)
    return JSON.stringify({ ...(await front.attestation(nonce)), nonce_path: paths[0] })
  })
  expect(await failures()).toEqual([])
  serve()

  const both = ['leading report_data', 'leading binding']
  const stored = await answered(old.nonce, old.paths[0])
  for (const path of [...old.paths, [], OTHERS, [old.nonce]]) {
    const { info, attestation } = JSON.parse(stored)
    const text = JSON.stringify({ info, attestation: { ...attestation, nonce_path: path } })
    expect(await shows(async () => text)).toEqual(both)
  }
  // The path of another caller of the same quote, and none.
  expect(await shows((own) => answered(next(own).nonce, next(own).paths[1]))).toEqual(both)
  expect(await shows((own) => answered(next(own).nonce, undefined))).toEqual(both)
  // A quote behind the nonce with an older binding, and the other way round; the quote of another key.
  const { quote, report_data, binding } = JSON.parse(stored).attestation
  const with_path = (own: string, change: object) => answered(next(own).nonce, next(own).paths[0], change)
  expect(await shows((own) => with_path(own, { binding }))).toEqual(['leading binding'])
  expect(await shows((own) => with_path(own, { quote, report_data }))).toContain('leading report_data')
  expect(
    await shows(async (own) => {
      const { quote, report_data, event_log } = await front.attestation(next(own).nonce)
      return with_path(own, { quote, report_data, event_log })
    }),
  ).toEqual(['leading report_data'])
  // Another boot of the same build, as of an epoch before: its quote is as fresh, and the chain has another signer.
  await withBoot(1, async (boot) => {
    const stated = infoOf(boot, 1)
    const showsBoot = async (own: string) => {
      const attestation = { ...(await boot.attestation(next(own).nonce)), nonce_path: next(own).paths[0] }
      return JSON.stringify({ info: stated, attestation })
    }
    expect(await shows(showsBoot)).toEqual(['leading settlement_signer'])
  })
  const malformed = [null, 'ab', ['ab'], [7], Array(NONCE_PATH_MAX + 1).fill(OTHERS[0])]
  for (const path of malformed) {
    site.answers.set('/attestation/leader', (own) => answered(own!, path))
    expect(await site.connect().catch((error) => error.name)).toBe('EvidenceUnavailable')
  }
})

test('the leading node vouches for no other: its bundle under the key of another is rejected', async () => {
  serve()
  const leader = async (nonce?: string) => JSON.parse(await leaderAnswer(nonce))
  site.answers.set('/attestation', async (nonce) => JSON.stringify((await leader(nonce)).attestation))
  // As the leading node.
  site.answers.set('/info', () => JSON.stringify(info))
  expect(await failures()).toEqual(['tls_key', 'evidence'])
  // As one that follows, with the keys of the leading one.
  site.answers.set('/info', () => JSON.stringify({ ...info, epoch: 0 }))
  expect(await failures()).toEqual(['binding'])
  serve()
  site.swapTls(generateTls(['localhost'], Date.now()))
  expect(await failures()).toEqual(['tls_key'])
})

test('a node that follows states an epoch, or one that leads none: rejected', async () => {
  serve()
  site.answers.set('/info', () => JSON.stringify(infoOf(front, 1)))
  expect(await failures()).toContain('binding')
  await withBoot(1, async (boot) => {
    serve(boot)
    expect(await failures()).toEqual(['binding'])
  })
})

test('a node that begins to lead between two answers is asked once more, and judged by its new role', async () => {
  let asked = 0
  site.answers.set('/info', () => JSON.stringify({ ...info, epoch: asked++ === 0 ? 0 : 1 }))
  expect(await failures()).toEqual([])
  expect(asked).toBe(2)
  asked = 0
  site.answers.set('/info', () => {
    asked += 1
    return JSON.stringify({ ...info, epoch: 0 })
  })
  site.answers.set('/attestation/leader', leaderAnswer)
  expect(await failures()).toEqual(['binding'])
  expect(asked).toBe(2)
})

test('the chain is read after the leading node has answered: it has the epoch that is stated', async () => {
  serve()
  const node = new LyingNode(site.policy.chain!.rpc_url)
  const asked: string[] = []
  const told = (method: string) => (result: unknown) => {
    asked.push(method)
    return result
  }
  node.lies = Object.fromEntries(['getGenesisHash', 'getMultipleAccounts'].map((one) => [one, told(one)]))
  site.answers.set('/attestation/leader', async (nonce) => {
    await Bun.sleep(50)
    asked.push('leader')
    return leaderAnswer(nonce)
  })
  try {
    expect(await failures({ chain: { ...site.policy.chain!, rpc_url: node.url } })).toEqual([])
    expect(asked[0]).toBe('leader')
    expect(asked).toContain('getMultipleAccounts')
  } finally {
    await node.stop()
  }
})

test("the policy's demands on machines hold for both", async () => {
  serve()
  const ppids = ['00'.repeat(16)]
  const failed = await failures({ ppids })
  expect(failed).toContain('machine_list')
  expect(failed).toContain('leading machine_list')
})

test('a build that the vault does not admit is rejected on either side', async () => {
  serve()
  const { knobs } = site.machine.agent
  const permitted_skips = [...SITE_SKIPS, 'compose_hash_unpinned' as const]
  const unpinned = { compose_hashes: undefined, permitted_skips } as never
  expect(await failures(unpinned)).toEqual([])
  const log = (await front.attestation('22'.repeat(32))).event_log
  knobs.wrong_compose_hash = true
  try {
    const other = await openOn(site.machine.agent)
    other.follow({ venue: fromHex(info.venue, 32)!, slot: () => 5 })
    expect((await other.attestation('22'.repeat(32))).event_log).not.toBe(log)
    serve(other)
    const stated = { ...infoOf(other, 0), compose_hash: other.identity.compose_hash }
    site.answers.set('/info', () => JSON.stringify(stated))
    site.answers.set('/attestation/leader', async (nonce) => {
      knobs.wrong_compose_hash = false
      const answer = await leaderAnswer(nonce)
      knobs.wrong_compose_hash = true
      return answer
    })
    expect((await failures(unpinned)).filter((name) => !name.includes('leading'))).toContain('announced')
    serve()
    knobs.wrong_compose_hash = false
    site.answers.set('/attestation/leader', async (nonce) => {
      knobs.wrong_compose_hash = true
      const { attestation } = JSON.parse(await leaderAnswer(nonce))
      knobs.wrong_compose_hash = false
      return JSON.stringify({ info: { ...info, compose_hash: other.identity.compose_hash }, attestation })
    })
    const on_leader = await failures(unpinned)
    expect(on_leader).toContain('leading settlement_signer')
    expect(on_leader.filter((name) => !name.includes('leading'))).toEqual([])
    await other.close()
  } finally {
    knobs.wrong_compose_hash = false
  }
})

test('a bundle without the leading node, or with one beside a node that leads, gives no venue', async () => {
  const { evidence: direct } = await site.connect()
  serve()
  const { evidence } = await site.connect()
  const judged = await judgeEvidence({ ...evidence, leader: null }, site.policy, 'recorded')
  expect(judged.checks.filter(({ result }) => result === 'fail').map(({ name }) => name)).toEqual([
    'following',
  ])
  expect(isAccepted(judged)).toBe(false)
  const both = judgeEvidence({ ...direct, leader: evidence.leader }, site.policy, 'recorded')
  expect(await both.catch((error) => error instanceof Refused)).toBe(true)
  site.answers.delete('/attestation/leader')
  expect(await site.connect().catch((error) => error instanceof EvidenceUnavailable)).toBe(true)
})
