/** Who can open an epoch of an attested vault, through the venue's own port: nothing less than machine, build and both keys. */
import { expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import type { ChainOptions } from '../../../engine/chain/open_chain'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { announceInstruction, withoutSuccessor } from '../../../protocol/vault/admin'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { PPID } from '../../../sandbox/enclave/machine'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { clientsOf } from '../../kit/chain/chain_folder'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'
import { administerVault } from '../../kit/vault/administer_vault'

const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))

/** Of the next epoch by an instance with these options: `opened`, or why not. */
async function outcome(
  world: VaultWorld,
  change: Partial<ChainOptions> = {},
  compose_hash = COMPOSE_HASH,
  record = async (): Promise<void> => {},
): Promise<string> {
  const port = await world.connect(change)
  const { epoch, journal_seq: seq, journal_head: head } = await port.readConfig()
  const spentRoot = async () => (await port.readConfig()).spent_root
  const terms = { boot_nonce: random(16), compose_hash, seq, head, restore: false, spentRoot }
  try {
    await port.openEpoch({ epoch: epoch + 1, ...terms, passes: async () => true }, record)
    return 'opened'
  } catch (error) {
    return (error as Error).message.replace('the chain refused the transaction: ', '')
  } finally {
    await port.close()
  }
}

/** Transactions that the venue's fee payer has sent. */
async function sent(world: VaultWorld): Promise<number> {
  const { rpc } = clientsOf(world.chain)
  return (await rpc.getSignaturesForAddress(addressOf(publicKeyOf(world.fee_seed))).send()).length
}

test('a platform that is not registered takes two transactions, a registered one takes one', async () => {
  await using world = await VaultWorld.open()
  const before = await sent(world)
  const started_ms = performance.now()
  expect(await outcome(world)).toBe('opened')
  const between_ms = performance.now()
  expect((await sent(world)) - before).toBe(2)
  expect(await outcome(world)).toBe('opened')
  const [first, second] = [between_ms - started_ms, performance.now() - between_ms]
  console.log(`opened in ${first.toFixed(0)} ms with registration, in ${second.toFixed(0)} ms without`)
  expect((await sent(world)) - before).toBe(3)
}, 120_000)

test('the opening does not wait for the registration, and is made again behind it where it overtakes it', async () => {
  let signed = 2
  let registration: string | undefined
  // The registration, sent first, reaches no block before the opening is signed again.
  const drop = (signature: string) => {
    if (signed > 1) return false
    registration ??= signature
    return signature === registration
  }
  await using world = await VaultWorld.open({ drop })
  signed = 0
  const before = await sent(world)
  expect(await outcome(world, {}, COMPOSE_HASH, async () => void signed++)).toBe('opened')
  expect(signed).toBeGreaterThan(1)
  expect((await sent(world)) - before).toBe(signed + 1)
}, 120_000)

test('where a fork takes back registration and opening, both are made again', async () => {
  await using world = await VaultWorld.open({}, 200)
  const { machine, fork } = world.chain
  const address = encodeBase58(vaultAddresses(world.program).config)
  const epoch = () => decodeConfig(machine.bank.newest(address)!.data)!.epoch
  const before = machine.tip
  const opening = outcome(world)
  while (epoch() === 0) await Bun.sleep(5)
  // Throws where a block since the first reading is finalized.
  fork(machine.tip - before)
  expect(epoch()).toBe(0)
  expect(await opening).toBe('opened')
}, 120_000)

test('machine, build, settlement key and epoch authority are each needed', async () => {
  await using world = await VaultWorld.open()
  const { machine } = world
  const seed = random(32)
  const own = { settlement_seed: seed, quoteEpoch: machine.quoteEpoch(seed) }
  expect(await outcome(world, own)).toBe('opened')
  const quoted: ReturnType<ChainOptions['quoteEpoch']>[] = []
  const key = random(32)
  const noting: ChainOptions['quoteEpoch'] = (bound) => {
    quoted.push(machine.quoteEpoch(key)(bound))
    return quoted.at(-1)!
  }
  expect(await outcome(world, { settlement_seed: key, quoteEpoch: noting })).toBe('opened')
  const stranger = simulatedMachine(COMPOSE_HASH)
  const other_build = simulatedMachine(new Uint8Array(32).fill(0xcd))
  const thief = random(32)
  const cases: [string, Partial<ChainOptions>, string][] = [
    [
      'a key of the KMS without a machine: a quote over another key',
      { settlement_seed: thief, quoteEpoch: own.quoteEpoch },
      'wrong_report_data',
    ],
    ['a recorded quote', { settlement_seed: key, quoteEpoch: () => quoted[0]! }, 'key_not_fresh'],
    [
      'a recorded quote for a fresh key',
      { settlement_seed: thief, quoteEpoch: () => quoted[0]! },
      'wrong_report_data',
    ],
    [
      'a machine under another root',
      { settlement_seed: thief, quoteEpoch: stranger.quoteEpoch(thief) },
      'wrong_root',
    ],
    ['another build', { settlement_seed: thief, quoteEpoch: other_build.quoteEpoch(thief) }, 'wrong_root'],
    ['another epoch authority', { authority_seed: thief }, 'not_epoch_authority'],
    [
      'a quote for another epoch',
      {
        settlement_seed: thief,
        quoteEpoch: (bound) => machine.quoteEpoch(thief)({ ...bound, epoch: bound.epoch + 1 }),
      },
      'wrong_report_data',
    ],
    [
      'a quote for another vault or generation',
      {
        settlement_seed: thief,
        quoteEpoch: (bound) => machine.quoteEpoch(thief)({ ...bound, venue: random(32) }),
      },
      'wrong_report_data',
    ],
  ]
  for (const [name, change, because] of cases)
    expect([name, await outcome(world, change)]).toEqual([name, because])
  expect(await outcome(world, {}, new Uint8Array(32).fill(0xcd))).toBe('wrong_build')
}, 240_000)

test.each([
  ['machine', { list: 'platform', id: PPID }],
  ['build', { list: 'build', id: COMPOSE_HASH }],
] as const)(
  'a revoked %s opens nothing, and announced again not before twice the exit delay',
  async (_, topic) => {
    await using world = await VaultWorld.open()
    expect(await outcome(world)).toBe('opened')
    for (const action of ['revoke', 'announce'] as const) {
      await byAdmin(world, (program, admin) =>
        announceInstruction({ program, admin, payer: admin, action, ...topic }),
      )
      expect([action, await outcome(world)]).toEqual([action, 'not_announced'])
    }
  },
  120_000,
)

test('a vault with one build, image and machine is degraded until each list has two', async () => {
  const world = await VaultWorld.open()
  const port = await world.connect({ successors_needed: true })
  const reasons = () => port.health().reasons.filter((reason) => reason === 'no_successor')
  while (reasons().length === 0) await Bun.sleep(5)
  for (const topic of [
    { list: 'build', id: random(32) },
    { list: 'image', id: random(32) },
    { list: 'platform', id: random(16) },
  ] as const)
    await byAdmin(world, (program, admin) =>
      announceInstruction({ program, admin, payer: admin, action: 'announce', ...topic }),
    )
  while (reasons().length > 0) await Bun.sleep(5)
  const { announced } = await port.readConfig()
  expect(withoutSuccessor(announced, Date.now() / 1000)).toEqual([])
  await port.close()
  await world.close()
}, 120_000)

/** Lands an instruction of the admin, who is its fee payer too. */
function byAdmin(
  { chain, program }: VaultWorld,
  make: (program: Uint8Array, admin: Uint8Array) => VaultInstruction,
): Promise<string> {
  const { admin_seed, url } = chain
  return administerVault([url], [admin_seed], make(program, publicKeyOf(admin_seed)), 0n)
}

test('the admin alone opens nothing, also not without a quote', async () => {
  await using world = await VaultWorld.open()
  expect(await outcome(world)).toBe('opened')
  // `open_epoch` and `rotate_signer` of earlier layouts, with the admin's own key.
  for (const number of [3, 10]) {
    const without = (program: Uint8Array, admin: Uint8Array) => ({
      program,
      accounts: [
        { address: admin, signer: true, writable: true },
        { address: vaultAddresses(program).config, signer: false, writable: true },
      ],
      data: Uint8Array.of(number, 0, ...admin),
    })
    const refusal = await byAdmin(world, without).catch((error: Error) => error.message)
    expect(refusal).toContain('unknown_instruction')
  }
}, 240_000)
