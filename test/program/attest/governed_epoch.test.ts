/** A holder of every KMS key and of the admin key opens an epoch for his own machine: announced, late, and seen by clients. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../client/verified_venue'
import { KEY_PATHS } from '../../../enclave/key_paths'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { openChain } from '../../../engine/chain/open_chain'
import type { EngineConfig } from '../../../engine/config'
import type { ChainPort, HashPort } from '../../../engine/ports'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { TransparencyReads } from '../../../engine/reads/transparency'
import { decodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../../protocol/sign'
import { type AnnouncedTopic, announceInstruction } from '../../../protocol/vault/admin'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { openOn } from '../../enclave/machine'
import { landOn } from '../../kit/verify/land_on'
import { openSite, type Site } from '../../kit/verify/site'

const EXIT_DELAY_S = 7 * 86_400
const OWN_BUILD = new Uint8Array(32).fill(0xcd)

async function reasons(site: Site, unixMs = Date.now): Promise<string[]> {
  const error = await site.connect({}, { unixMs }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error === undefined) return []
  if (!(error instanceof VerificationFailed)) throw error
  return error.transcript.checks
    .filter(({ result }) => result === 'fail')
    .map(({ name, reason }) => `${name}: ${reason}`)
}

/** The route's answer over this reading of the chain. */
async function transparencyOf(chain: ChainPort, folder: string) {
  const first = { config: await chain.readConfig(), mints: [] }
  const settings = { instruments: [], mints: [], auditor_key: '' } as unknown as EngineConfig
  const clock = { monotonicMs: () => 0, unixMs: () => chain.view().unix_ms }
  const facts = new PublicFacts(folder, new Uint8Array(32).fill(5))
  const parts = { settings, venue: new Uint8Array(32), chain, clock, facts, exits: () => [] }
  const answer = await new TransparencyReads(parts, first).read()
  facts.close()
  return answer
}

/** The builds that hold, and whether another build and root are announced for later. */
async function shownOf(chain: ChainPort, folder: string) {
  const { admin, announced } = await transparencyOf(chain, folder)
  const later = admin.pending.map(({ action }) => action)
  const builds = announced.filter(({ list }) => list === 'build').map(({ id }) => id)
  return { later: later.includes('build') && later.includes('attestation_root'), builds }
}

/** An opening with the port's keys and quote, and the end of it. */
const openerOf = (port: ChainPort) => async (): Promise<string> => {
  const { epoch, journal_seq: seq, journal_head: head } = await port.readConfig()
  const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
  const boot = { epoch: epoch + 1, boot_nonce, compose_hash: OWN_BUILD, seq, head, restore: false }
  const spentRoot = async () => EMPTY_SPENT_SUBTREES.at(-1)
  return port
    .openEpoch({ ...boot, spentRoot, passes: async () => true }, async () => {})
    .then(
      () => 'opened',
      (error: Error) => error.message,
    )
}

/** By the admin key, but for the epoch authority, which is the venue's own. */
async function announceAll({ chain }: Site, topics: (AnnouncedTopic & { value?: Uint8Array })[]) {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  const fields = { program: chain.program_id!, admin: key, payer: key, action: 'announce' } as const
  for (const one of topics.filter(({ list }) => list !== 'epoch_authority'))
    await landOn(chain, admin, toInstruction(announceInstruction({ ...fields, ...one }), [admin]))
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(10)
}

test('KMS keys and admin key open an epoch only twice the exit delay after clients refuse the venue for it', async () => {
  const site = await openSite()
  const { chain } = site
  const folder = mkdtempSync(join(tmpdir(), 'tacit-governed-'))
  const program = chain.program_id!
  // Every key that the KMS derives is the same for another build of this app.
  const kms = await openOn(site.machine.agent)
  const own = simulatedMachine(OWN_BUILD)
  const settlement_seed = crypto.getRandomValues(new Uint8Array(32))
  const port = await openChain({
    rpc_urls: [chain.url],
    program_id: program,
    settlement_seed,
    authority_seed: await kms.deriveKey(KEY_PATHS.epoch_authority),
    fee_seed: await kms.deriveKey(KEY_PATHS.fees),
    quoteEpoch: own.quoteEpoch(settlement_seed),
    slot_ms: 10,
    hash: {} as HashPort,
  })
  const open = openerOf(port)
  expect(await reasons(site)).toEqual([])
  expect(await open()).toContain('wrong_root')

  await announceAll(site, own.announced)
  const [refused] = await reasons(site)
  expect(refused).toMatch(/^announced: the administrator has announced another /)
  // What `/transparency` and `tacit watch-venue` list.
  const now_s = port.view().unix_ms / 1_000
  const shown = () => shownOf(port, folder)
  const own_build = toHex(OWN_BUILD)
  const { builds } = await shown()
  expect(await shown()).toEqual({ later: true, builds })
  expect(builds).not.toContain(own_build)
  const later = (await port.readConfig()).announced.flatMap(({ list, next }) =>
    next ? [{ list, ...next }] : [],
  )
  for (const { from_s } of later) expect(from_s - now_s).toBeGreaterThan(2 * EXIT_DELAY_S - 600)
  expect(await open()).toContain('wrong_root')

  chain.warpTime(2 * EXIT_DELAY_S - 600)
  chain.advance(10)
  expect(await open()).toContain('wrong_root')
  await until(async () => port.view().unix_ms / 1_000 > now_s + 2 * EXIT_DELAY_S - 1_200)
  expect(await shown()).toEqual({ later: true, builds })
  chain.warpTime(1_200)
  chain.advance(10)
  await until(async () => port.view().unix_ms / 1_000 > now_s + 2 * EXIT_DELAY_S)
  // Between the end of the delay and the opening.
  const held = await shown()
  expect(held.later).toBe(false)
  expect(held.builds.toSorted()).toEqual([...builds, own_build].toSorted())
  const at_opening = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000
  expect(await reasons(site, at_opening)).toEqual([
    expect.stringMatching(/^announced: the vault does not admit/),
  ])
  expect(await open()).toBe('opened')
  expect((await port.readConfig()).settlement_signer).toEqual(publicKeyOf(settlement_seed))
  expect(await reasons(site)).toContain('settlement_signer: the vault accepts another settlement key')
  await port.close()
  await kms.close()
  await site.close()
  rmSync(folder, { recursive: true })
}, 240_000)
