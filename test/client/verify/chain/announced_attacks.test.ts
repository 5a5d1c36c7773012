/** Attacks on the client's reading of announcements: minima, builds, images and authorities after their delay, older slots. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../../client/verified_venue'
import { decodeBase64 } from '../../../../client/verify/json_document'
import { toInstruction } from '../../../../engine/chain/client/build_transaction'
import { decodeBase58, encodeBase58 } from '../../../../protocol/base58'
import { fromAnyHex, fromHex, toHex } from '../../../../protocol/bytes'
import { parseQuote } from '../../../../protocol/tdx/quote'
import { decodeAnnouncement } from '../../../../protocol/vault/accounts'
import { type AnnouncedTopic, announceInstruction } from '../../../../protocol/vault/admin'
import { imageId } from '../../../../protocol/vault/epochs'
import { openOn } from '../../../enclave/machine'
import { landOn } from '../../../kit/verify/land_on'
import { openSite, type Site } from '../../../kit/verify/site'
import { LyingNode } from '../../lying_node'

const EXIT_DELAY_S = 7 * 86_400
const OTHER_BUILD = new Uint8Array(32).fill(0xcd)
const OTHER_PPID = new Uint8Array(16).fill(0xce)

let site: Site
let node: LyingNode
beforeAll(async () => {
  site = await openSite()
  node = new LyingNode(site.policy.chain!.rpc_url)
})
afterAll(async () => {
  await node.stop()
  await site.close()
})

type Demands = Parameters<Site['connect']>[0]
/** Reasons of the checks that fail on what the node shows. */
async function reasons(change: Demands = {}, unixMs = Date.now, of = site): Promise<string[]> {
  const chain = { ...site.policy.chain!, rpc_url: node.url }
  const failed = await of.connect({ chain, ...change }, { unixMs }).then(
    () => undefined,
    (error: unknown) => error,
  )
  if (failed === undefined) return []
  if (!(failed instanceof VerificationFailed)) throw failed
  return failed.transcript.checks
    .filter(({ result }) => result === 'fail')
    .map(({ name, reason }) => `${name}: ${reason}`)
}

async function announce(
  of: Site,
  action: 'announce' | 'raise' | 'revoke',
  topic: AnnouncedTopic,
  value?: Uint8Array,
) {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(of.chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  const fields = { program: of.chain.program_id!, admin: key, payer: key, ...topic }
  const made = announceInstruction({ ...fields, action, value } as Parameters<typeof announceInstruction>[0])
  await landOn(of.chain, admin, toInstruction(made, [admin]))
}

type Listed = { context?: { slot: number }; value: { account: { data: [string] } }[] }
type Shown = { context: { slot: number } }

test('a node whose announcements are older than its accounts, or that names no slot of them, is refused', async () => {
  expect(await reasons()).toEqual([])
  node.lies = { getProgramAccounts: (result) => (result as Listed).value ?? result }
  expect(await reasons()).toContainEqual(expect.stringContaining('announcements are malformed'))
  node.lies = {
    getMultipleAccounts: (result) => ({ ...(result as object), context: { slot: 1_000_000 } }),
  }
  expect(await reasons()).toContainEqual(expect.stringMatching(/could not be read/))
  node.lies = {}
})

test('a node that answers from long before the venue stated its slot is refused', async () => {
  const { context } = await fetch(site.chain.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: [node_owner(), {}] }),
  })
    .then((answer) => answer.json() as Promise<{ result: Shown }>)
    .then(({ result }) => result)
  site.stateSlot(context.slot + 1_000)
  try {
    expect(await reasons()).toContainEqual(expect.stringMatching(/^settlement_signer: .* older slot/))
    site.stateSlot(context.slot)
    expect(await reasons()).toEqual([])
  } finally {
    site.stateSlot(5)
  }
})
const node_owner = (): string => site.policy.chain!.program_id

test('a build or machine whose delay has passed is refused like one that is announced', async () => {
  const build = { list: 'build', id: OTHER_BUILD } as const
  const platform = { list: 'platform', id: OTHER_PPID } as const
  await announce(site, 'announce', build)
  await announce(site, 'announce', platform)
  const ppids = (
    await site.connect({ chain: { ...site.policy.chain!, pending_actions: ['build', 'platform'] } })
  ).transcript.checks.find(({ name }) => name === 'quote')!.values['ppid']!
  const { compose_hashes } = site.policy
  const pinned = { ppids: [ppids] }
  expect(await reasons(pinned)).toEqual([
    expect.stringMatching(/^announced: the administrator has announced another (build|platform), /),
  ])
  site.chain.warpTime(2 * EXIT_DELAY_S + 600)
  site.chain.advance(10)
  const then = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000
  expect(
    await reasons({ ...pinned, compose_hashes: [...compose_hashes!, toHex(OTHER_BUILD)] }, then),
  ).toEqual([
    `announced: the vault admits another platform, ${toHex(OTHER_PPID)}, that the policy does not name`,
  ])
  expect(await reasons({ ppids: [ppids, toHex(OTHER_PPID)] }, then)).toEqual([
    `announced: the vault admits another build, ${toHex(OTHER_BUILD)}, that the policy does not name`,
  ])
  const all = {
    ppids: [ppids, toHex(OTHER_PPID)],
    compose_hashes: [...compose_hashes!, toHex(OTHER_BUILD)],
  }
  expect(await reasons(all, then)).toEqual([])
  await announce(site, 'revoke', build)
  await announce(site, 'revoke', platform)
  expect(await reasons(pinned, then)).toEqual([])
})

/** Registers of the site's machine, as a policy pins them. */
async function ownRegisters(
  of: Site,
): Promise<Record<'mrtd' | 'rtmr0' | 'rtmr1' | 'rtmr2' | 'xfam', string>> {
  const { evidence } = await of.connect()
  const { mr_td, rtmr, xfam } = parseQuote(fromAnyHex(evidence.attestation.quote)!).report
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex)
  return { mrtd: mrtd!, rtmr0: rtmr0!, rtmr1: rtmr1!, rtmr2: rtmr2!, xfam: toHex(xfam) }
}
/** After the delay of what is announced now. */
const afterDelay = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000

test('an image whose delay has passed is refused unless the policy pins its registers', async () => {
  const site = await openSite()
  const chain = site.policy.chain!
  const own = await ownRegisters(site)
  const other = { ...own, rtmr1: 'ad'.repeat(48) }
  const { xfam, ...any_xfam } = other
  const [mr_td, ...rtmr] = [own.mrtd, own.rtmr0, other.rtmr1, own.rtmr2].map((one) => fromHex(one, 48)!)
  const id = imageId({ mr_td: mr_td!, rtmr: [...rtmr, mr_td] as never, xfam: fromHex(xfam, 8)! })
  await announce(site, 'announce', { list: 'image', id })
  const pinning = (...registers: object[]) => ({ chain, registers: registers as (typeof any_xfam)[] })
  const surplus = `announced: the vault admits another image, ${toHex(id)}, that the policy does not name`
  for (const pinned of [other, any_xfam]) {
    expect(await reasons(pinning(own, pinned), Date.now, site)).toEqual([])
    expect(await reasons(pinning(own, pinned), afterDelay, site)).toEqual([])
  }
  for (const pinned of [own, { ...other, xfam: 'ff'.repeat(8) }, { ...other, rtmr2: 'ad'.repeat(48) }]) {
    const [later] = await reasons(pinning(own, pinned), Date.now, site)
    expect(later).toMatch(/^announced: the administrator has announced another image, /)
    expect(await reasons(pinning(own, pinned), afterDelay, site)).toEqual([surplus])
  }
  // A hash of an image names registers only together with a machine, so another image needs its own.
  const hashed = { ...pinning(own), os_image_hashes: ['ae'.repeat(32)] }
  expect(await reasons(hashed, afterDelay, site)).toEqual([surplus])
  await announce(site, 'revoke', { list: 'image', id })
  expect(await reasons(pinning(own), afterDelay, site)).toEqual([])
  await site.close()
})

test('another epoch authority is refused before and after its delay where the policy names the keys', async () => {
  const own = await openSite()
  const { transcript } = await own.connect()
  const { epoch_authority } = transcript.checks.find(({ name }) => name === 'announced')!.values
  const other = new Uint8Array(32).fill(0x7a)
  const chain = { ...own.policy.chain!, epoch_authorities: [epoch_authority!] }
  const both = { ...chain, epoch_authorities: [epoch_authority!, encodeBase58(other)] }
  expect(await reasons({ chain }, Date.now, own)).toEqual([])
  await announce(own, 'announce', { list: 'epoch_authority' }, other)
  expect((await reasons({ chain }, Date.now, own))[0]).toContain(
    `has announced another epoch_authority, ${encodeBase58(other)}`,
  )
  expect(await reasons({ chain: both }, Date.now, own)).toEqual([])
  expect(await reasons({ chain }, afterDelay, own)).toEqual([
    `announced: the vault admits another epoch_authority, ${encodeBase58(other)}, that the policy does not name`,
  ])
  expect(await reasons({ chain: both }, afterDelay, own)).toEqual([])
  await announce(own, 'revoke', { list: 'epoch_authority' })
  expect(await reasons({ chain }, afterDelay, own)).toEqual([
    'announced: the vault does not admit the epoch_authority of this machine any more',
  ])
  await own.close()
})

test('minima that are raised above this machine are refused like its removal', async () => {
  for (const list of ['fmspc_minimum', 'tee_tcb_minimum', 'qe_minimum'] as const) {
    const own = await openSite()
    const { evidence } = await own.connect()
    const records = evidence.chain!.announced.map((data) => decodeAnnouncement(decodeBase64(data))!)
    const { id, value } = records.find((one) => one.list === list)!
    const topic = list === 'fmspc_minimum' ? { list, id: id.slice(0, 6) } : { list }
    const raised = value.slice(0, 18)
    // Of the quoting enclave the SVN, which is behind the components.
    raised[list === 'qe_minimum' ? 16 : 2]! += 1
    await announce(own, 'raise', topic, raised)
    const [failed] = await reasons({ chain: own.policy.chain! }, Date.now, own)
    expect(failed).toBe(`announced: this machine is below the ${list} of the vault`)
    await own.close()
  }
})

test('a venue that shows the attestation or the evidence files of another boot is refused', async () => {
  const second = await openOn(site.machine.agent)
  const info = JSON.parse(String(await site.answers.get('/info')!(undefined))) as {
    venue: string
    epoch: number
  }
  const tee_pubkey = encodeBase58(second.identity.tee_pubkey)
  await second.bind({ venue: fromHex(info.venue, 32)!, epoch: info.epoch, slot: () => 5 })
  const second_attestation = async (nonce?: string) => JSON.stringify(await second.attestation(nonce))
  try {
    site.answers.set('/attestation', second_attestation)
    expect(await reasons()).toContain('report_data: the venue states two settlement keys')
    site.answers.set('/info', () => JSON.stringify({ ...info, tee_pubkey }))
    expect(await reasons()).toContain('settlement_signer: the vault accepts another settlement key')
    site.restore()
    for (const name of second.evidenceNames())
      site.answers.set(`/evidences/${name}`, () => second.evidence(name)!.body)
    expect(await reasons()).toEqual([expect.stringMatching(/^evidence: /)])
  } finally {
    site.restore()
    await second.close()
  }
  expect(await reasons()).toEqual([])
})
