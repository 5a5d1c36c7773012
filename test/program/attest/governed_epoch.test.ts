/** A holder of every KMS key and of the admin key opens an epoch for his own machine: announced, late, and seen by clients. */
import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../client/verified_venue'
import { KEY_PATHS } from '../../../enclave/key_paths'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { openChain } from '../../../engine/chain/open_chain'
import type { HashPort } from '../../../engine/ports'
import { decodeBase58 } from '../../../protocol/base58'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/spent_log'
import { publicKeyOf } from '../../../protocol/sign'
import { announceInstruction } from '../../../protocol/vault/announcements'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { openOn } from '../../enclave/machine'
import { landOn } from '../../kit/verify/land_on'
import { openSite, type Site } from '../../kit/verify/site'

const EXIT_DELAY_S = 7 * 86_400
const OWN_BUILD = new Uint8Array(32).fill(0xcd)

async function reasons(site: Site): Promise<string[]> {
  const error = await site.connect().then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error === undefined) return []
  if (!(error instanceof VerificationFailed)) throw error
  return error.transcript.checks
    .filter(({ result }) => result === 'fail')
    .map(({ name, reason }) => `${name}: ${reason}`)
}

test('KMS keys and admin key open an epoch only twice the exit delay after clients refuse the venue for it', async () => {
  const site = await openSite()
  const { chain } = site
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
  const open = async (): Promise<string> => {
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
  expect(await reasons(site)).toEqual([])
  expect(await open()).toContain('wrong_root')

  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  for (const one of own.announced.filter(({ list }) => list !== 'epoch_authority')) {
    const announced = announceInstruction({ program, admin: key, payer: key, action: 'announce', ...one })
    await landOn(chain, admin, toInstruction(announced, [admin]))
  }
  const [refused] = await reasons(site)
  expect(refused).toMatch(/^announced: the administrator has announced another /)
  // What `/transparency` and `tacit watch-venue` list.
  const now_s = port.view().unix_ms / 1_000
  const later = (await port.readConfig()).announced.flatMap(({ list, next }) =>
    next ? [{ list, ...next }] : [],
  )
  expect(new Set(later.map(({ list }) => list)).has('attestation_root')).toBe(true)
  expect(new Set(later.map(({ list }) => list)).has('build')).toBe(true)
  for (const { from_s } of later) expect(from_s - now_s).toBeGreaterThan(2 * EXIT_DELAY_S - 600)
  expect(await open()).toContain('wrong_root')

  chain.warpTime(2 * EXIT_DELAY_S - 600)
  chain.advance(10)
  expect(await open()).toContain('wrong_root')
  chain.warpTime(1_200)
  chain.advance(10)
  expect(await open()).toBe('opened')
  expect((await port.readConfig()).settlement_signer).toEqual(publicKeyOf(settlement_seed))
  expect(await reasons(site)).toContain('settlement_signer: the vault accepts another settlement key')
  await port.close()
  await kms.close()
  await site.close()
}, 240_000)
