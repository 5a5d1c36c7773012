/** The vault on chain has the last word about settlement key and announcements; the client reads it itself, at any slot. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes, type Instruction } from '@solana/kit'
import { VerificationFailed } from '../../../../client/verified_venue'
import { decodeBase64 } from '../../../../client/verify/json_document'
import type { ChainPolicy } from '../../../../client/verify/policy'
import { toInstruction } from '../../../../engine/chain/client/build_transaction'
import { decodeBase58, encodeBase58 } from '../../../../protocol/base58'
import { fromAnyHex, fromHex, toHex } from '../../../../protocol/bytes'
import { parseQuote } from '../../../../protocol/tdx/quote'
import { CONFIG, decodeAnnouncement } from '../../../../protocol/vault/accounts'
import {
  type AnnouncedTopic,
  announceInstruction,
  authorizeRestoreInstruction,
  pauseInstruction,
  setAdminInstruction,
} from '../../../../protocol/vault/admin'
import { imageId } from '../../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import { openOn } from '../../../enclave/machine'
import { landOn, openSite, type Site } from '../../../kit/verify/site'
import { LyingNode } from '../../lying_node'

let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterAll(() => site.close())

async function reasons(change: Partial<ChainPolicy> = {}): Promise<string[]> {
  try {
    await site.connect({ chain: { ...site.policy.chain!, ...change } })
    return []
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const failed = error.transcript.checks.filter((check) => check.result === 'fail')
    return failed.map((check) => `${check.name}: ${check.reason}`)
  }
}

async function asAdmin(make: (fields: { program: Uint8Array; admin: Uint8Array }) => VaultInstruction) {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(site.chain.admin_seed)
  const fields = { program: site.chain.program_id!, admin: decodeBase58(admin.address, 32)! }
  const instruction: Instruction = toInstruction(make(fields), [admin])
  await landOn(site.chain, admin, instruction)
}

test('the pinned cluster, program hash and length are compared', async () => {
  expect(await reasons()).toEqual([])
  const { evidence } = await site.connect()
  const { sha256 } = evidence.chain!.program_data
  expect(await reasons({ program_sha256: sha256, genesis_hash: evidence.chain!.genesis_hash })).toEqual([])
  expect(await reasons({ program_sha256: '00'.repeat(32) })).toEqual([
    'program: the program is another build than the pinned one',
  ])
  const other_cluster = await reasons({ genesis_hash: 'So11111111111111111111111111111111111111112' })
  expect(other_cluster[0]).toMatch(/settlement_signer: the chain is another cluster/)
  expect((await reasons({ program_bytes: 100 }))[0]).toMatch(/could not be read/)
})

test('an endpoint that does not answer refuses the venue', async () => {
  expect((await reasons({ rpc_url: 'http://127.0.0.1:1' }))[0]).toMatch(/chain could not be read/)
})

/** The reasons under an endpoint that flips a bit of byte `at` in account `index`: config, program, program data. */
async function reasonsUnderLie(index: number, at: number): Promise<string[]> {
  const { rpc_url } = site.policy.chain!
  const lying = new LyingNode(rpc_url)
  lying.lies = {
    getMultipleAccounts: (result) => {
      const account = (result as { value: { data: [string] }[] }).value[index]!
      const data = Buffer.from(account.data[0], 'base64')
      data[at]! ^= 1
      account.data[0] = data.toString('base64')
      return result
    },
  }
  const found = await reasons({ rpc_url: lying.url })
  await lying.stop()
  return found
}

test('a program account that names other data than its own is refused', async () => {
  expect((await reasonsUnderLie(1, 4))[0]).toMatch(/names other data/)
})

test('a vault that was initialized with the genesis hash of another cluster is refused', async () => {
  const venue_at = CONFIG.offsetOf('venue')
  expect(await reasonsUnderLie(0, venue_at)).toContain(
    'settlement_signer: the vault was initialized for another cluster',
  )
})

test('a vault that accepts another settlement key is refused', async () => {
  const other = await openSite()
  try {
    const { rpc_url, program_id } = other.policy.chain!
    expect(await reasons({ rpc_url })).not.toEqual([])
    // The venue states its own program; a client that pins another one reads that one.
    expect((await reasons({ rpc_url, program_id }))[0]).toMatch(/settlement_signer/)
  } finally {
    await other.close()
  }
})

test('an announced change is refused unless the policy expects it', async () => {
  await asAdmin((fields) =>
    setAdminInstruction({ ...fields, action: 'announce', key: new Uint8Array(32).fill(3) }),
  )
  expect(await reasons()).toEqual(['vault_state: the administrator has announced set_admin'])
  expect(await reasons({ pending_actions: ['set_admin'] })).toEqual([])
  await asAdmin((fields) => authorizeRestoreInstruction({ ...fields, action: 'announce' }))
  const pending_actions = ['set_admin' as const]
  expect(await reasons({ pending_actions })).toEqual([
    'vault_state: the administrator has announced authorize_restore',
  ])
  await asAdmin((fields) => authorizeRestoreInstruction({ ...fields, action: 'cancel' }))
  expect(await reasons({ pending_actions })).toEqual([])
})

const OTHER_BUILD = new Uint8Array(32).fill(0xcd)

test('each record that the machine rests on must be announced', async () => {
  const { rpc_url } = site.policy.chain!
  const pending_actions = ['set_admin' as const]
  const { evidence } = await site.connect({ chain: { ...site.policy.chain!, pending_actions } })
  const records = evidence.chain!.announced.map((data) => decodeAnnouncement(decodeBase64(data))!)
  expect(new Set(records.map(({ list }) => list)).size).toBe(10)
  for (const { list } of records) {
    const lying = new LyingNode(rpc_url)
    lying.lies = {
      getProgramAccounts: (result) => {
        const { context, value } = result as { context: object; value: { account: { data: [string] } }[] }
        const shown = value.filter(
          ({ account }) => decodeAnnouncement(decodeBase64(account.data[0]))!.list !== list,
        )
        return { context, value: shown }
      },
    }
    expect(await reasons({ rpc_url: lying.url, pending_actions })).toEqual([
      `announced: the vault does not admit the ${list} of this machine any more`,
    ])
    await lying.stop()
  }
})

test('a build that is announced for later is refused unless the policy expects it', async () => {
  const topic = { list: 'build', id: OTHER_BUILD } as const
  await asAdmin((fields) =>
    announceInstruction({ ...fields, payer: fields.admin, action: 'announce', ...topic }),
  )
  const pending_actions = ['set_admin' as const]
  const [reason] = await reasons({ pending_actions })
  expect(reason).toMatch(/^announced: the administrator has announced another build, (cd){32} from 20/)
  expect(await reasons({ pending_actions: [...pending_actions, 'build'] })).toEqual([])
  const accepted = [...site.policy.compose_hashes!, toHex(OTHER_BUILD)]
  const { chain } = site.policy
  const change = { chain: { ...chain!, pending_actions }, compose_hashes: accepted }
  const { transcript } = await site.connect(change)
  const { values } = transcript.checks.find(({ name }) => name === 'announced')!
  expect(values['later']).toMatch(/^build (cd){32} from 20/)
  expect(values['attestation_root']).toBe('of a development machine')
  await asAdmin((fields) =>
    announceInstruction({ ...fields, payer: fields.admin, action: 'cancel', ...topic }),
  )
})

test('a paused vault is refused unless the policy allows it', async () => {
  await asAdmin(pauseInstruction)
  const pending_actions = ['set_admin' as const]
  expect(await reasons({ pending_actions })).toEqual(['vault_state: the vault is paused'])
  expect(await reasons({ pending_actions, paused_allowed: true })).toEqual([])
})

const EXIT_DELAY_S = 7 * 86_400

const OTHER_PPID = new Uint8Array(16).fill(0xce)

let announcedSite: Site
let node: LyingNode
beforeAll(async () => {
  announcedSite = await openSite()
  node = new LyingNode(announcedSite.policy.chain!.rpc_url)
})
afterAll(async () => {
  await node.stop()
  await announcedSite.close()
})

type Demands = Parameters<Site['connect']>[0]
/** Reasons of the checks that fail on the node's answers. */
async function announcedReasons(
  change: Demands = {},
  unixMs = Date.now,
  of = announcedSite,
): Promise<string[]> {
  const chain = { ...announcedSite.policy.chain!, rpc_url: node.url }
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
  expect(await announcedReasons()).toEqual([])
  node.lies = { getProgramAccounts: (result) => (result as Listed).value ?? result }
  expect(await announcedReasons()).toContainEqual(expect.stringContaining('announcements are malformed'))
  node.lies = {
    getMultipleAccounts: (result) => ({ ...(result as object), context: { slot: 1_000_000 } }),
  }
  expect(await announcedReasons()).toContainEqual(expect.stringMatching(/could not be read/))
  node.lies = {}
})

test('a node that answers from long before the venue stated its slot is refused', async () => {
  const { context } = await fetch(announcedSite.chain.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: [node_owner(), {}] }),
  })
    .then((answer) => answer.json() as Promise<{ result: Shown }>)
    .then(({ result }) => result)
  announcedSite.stateSlot(context.slot + 1_000)
  try {
    expect(await announcedReasons()).toContainEqual(
      expect.stringMatching(/^settlement_signer: .* older slot/),
    )
    announcedSite.stateSlot(context.slot)
    expect(await announcedReasons()).toEqual([])
  } finally {
    announcedSite.stateSlot(5)
  }
})
const node_owner = (): string => announcedSite.policy.chain!.program_id

test('a build or machine whose delay has passed is refused like one that is announced', async () => {
  const build = { list: 'build', id: OTHER_BUILD } as const
  const platform = { list: 'platform', id: OTHER_PPID } as const
  await announce(announcedSite, 'announce', build)
  await announce(announcedSite, 'announce', platform)
  const ppids = (
    await announcedSite.connect({
      chain: { ...announcedSite.policy.chain!, pending_actions: ['build', 'platform'] },
    })
  ).transcript.checks.find(({ name }) => name === 'quote')!.values['ppid']!
  const { compose_hashes } = announcedSite.policy
  const pinned = { ppids: [ppids] }
  expect(await announcedReasons(pinned)).toEqual([
    expect.stringMatching(/^announced: the administrator has announced another (build|platform), /),
  ])
  announcedSite.chain.warpTime(2 * EXIT_DELAY_S + 600)
  announcedSite.chain.advance(10)
  const then = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000
  expect(
    await announcedReasons({ ...pinned, compose_hashes: [...compose_hashes!, toHex(OTHER_BUILD)] }, then),
  ).toEqual([
    `announced: the vault admits another platform, ${toHex(OTHER_PPID)}, that the policy does not name`,
  ])
  expect(await announcedReasons({ ppids: [ppids, toHex(OTHER_PPID)] }, then)).toEqual([
    `announced: the vault admits another build, ${toHex(OTHER_BUILD)}, that the policy does not name`,
  ])
  const all = {
    ppids: [ppids, toHex(OTHER_PPID)],
    compose_hashes: [...compose_hashes!, toHex(OTHER_BUILD)],
  }
  expect(await announcedReasons(all, then)).toEqual([])
  await announce(announcedSite, 'revoke', build)
  await announce(announcedSite, 'revoke', platform)
  expect(await announcedReasons(pinned, then)).toEqual([])
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
/** After the delay of the current announcement. */
const afterDelay = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000

test('an image whose delay has passed is refused unless the policy pins its registers', async () => {
  const announcedSite = await openSite()
  const chain = announcedSite.policy.chain!
  const own = await ownRegisters(announcedSite)
  const other = { ...own, rtmr1: 'ad'.repeat(48) }
  const { xfam, ...any_xfam } = other
  const [mr_td, ...rtmr] = [own.mrtd, own.rtmr0, other.rtmr1, own.rtmr2].map((one) => fromHex(one, 48)!)
  const id = imageId({ mr_td: mr_td!, rtmr: [...rtmr, mr_td] as never, xfam: fromHex(xfam, 8)! })
  await announce(announcedSite, 'announce', { list: 'image', id })
  const pinning = (...registers: object[]) => ({ chain, registers: registers as (typeof any_xfam)[] })
  const surplus = `announced: the vault admits another image, ${toHex(id)}, that the policy does not name`
  for (const pinned of [other, any_xfam]) {
    expect(await announcedReasons(pinning(own, pinned), Date.now, announcedSite)).toEqual([])
    expect(await announcedReasons(pinning(own, pinned), afterDelay, announcedSite)).toEqual([])
  }
  for (const pinned of [own, { ...other, xfam: 'ff'.repeat(8) }, { ...other, rtmr2: 'ad'.repeat(48) }]) {
    const [later] = await announcedReasons(pinning(own, pinned), Date.now, announcedSite)
    expect(later).toMatch(/^announced: the administrator has announced another image, /)
    expect(await announcedReasons(pinning(own, pinned), afterDelay, announcedSite)).toEqual([surplus])
  }
  // A hash of an image names registers only together with a machine, so another image needs its own.
  const hashed = { ...pinning(own), os_image_hashes: ['ae'.repeat(32)] }
  expect(await announcedReasons(hashed, afterDelay, announcedSite)).toEqual([surplus])
  await announce(announcedSite, 'revoke', { list: 'image', id })
  expect(await announcedReasons(pinning(own), afterDelay, announcedSite)).toEqual([])
  await announcedSite.close()
})

test('another epoch authority is refused before and after its delay where the policy names the keys', async () => {
  const own = await openSite()
  const { transcript } = await own.connect()
  const { epoch_authority } = transcript.checks.find(({ name }) => name === 'announced')!.values
  const other = new Uint8Array(32).fill(0x7a)
  const chain = { ...own.policy.chain!, epoch_authorities: [epoch_authority!] }
  const both = { ...chain, epoch_authorities: [epoch_authority!, encodeBase58(other)] }
  expect(await announcedReasons({ chain }, Date.now, own)).toEqual([])
  await announce(own, 'announce', { list: 'epoch_authority' }, other)
  expect((await announcedReasons({ chain }, Date.now, own))[0]).toContain(
    `has announced another epoch_authority, ${encodeBase58(other)}`,
  )
  expect(await announcedReasons({ chain: both }, Date.now, own)).toEqual([])
  expect(await announcedReasons({ chain }, afterDelay, own)).toEqual([
    `announced: the vault admits another epoch_authority, ${encodeBase58(other)}, that the policy does not name`,
  ])
  expect(await announcedReasons({ chain: both }, afterDelay, own)).toEqual([])
  await announce(own, 'revoke', { list: 'epoch_authority' })
  expect(await announcedReasons({ chain }, afterDelay, own)).toEqual([
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
    const [failed] = await announcedReasons({ chain: own.policy.chain! }, Date.now, own)
    expect(failed).toBe(`announced: this machine is below the ${list} of the vault`)
    await own.close()
  }
})

test('a venue that shows the attestation or the evidence files of another boot is refused', async () => {
  const second = await openOn(announcedSite.machine.agent)
  const info = JSON.parse(String(await announcedSite.answers.get('/info')!(undefined))) as {
    venue: string
    epoch: number
  }
  const tee_pubkey = encodeBase58(second.identity.tee_pubkey)
  await second.bind({ venue: fromHex(info.venue, 32)!, epoch: info.epoch, slot: () => 5 })
  const second_attestation = async (nonce?: string) => JSON.stringify(await second.attestation(nonce))
  try {
    announcedSite.answers.set('/attestation', second_attestation)
    expect(await announcedReasons()).toContain('report_data: the venue states two settlement keys')
    announcedSite.answers.set('/info', () => JSON.stringify({ ...info, tee_pubkey }))
    expect(await announcedReasons()).toContain('settlement_signer: the vault accepts another settlement key')
    announcedSite.restore()
    for (const name of second.evidenceNames())
      announcedSite.answers.set(`/evidences/${name}`, () => second.evidence(name)!.body)
    expect(await announcedReasons()).toEqual([expect.stringMatching(/^evidence: /)])
  } finally {
    announcedSite.restore()
    await second.close()
  }
  expect(await announcedReasons()).toEqual([])
})
