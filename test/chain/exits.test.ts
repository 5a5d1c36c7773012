/** Exit requests reach the engine, vanish with a fork, and are served by an ordinary batch; a pause is told. */
import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { associatedTokenAddress } from '../../engine/chain/embedded/faucet'
import { toInstruction } from '../../engine/chain/vault_instruction'
import { decodeBase58 } from '../../protocol/base58'
import { compareBytes, toHex } from '../../protocol/bytes'
import { noteInner, nullifierOf } from '../../protocol/notes'
import { pauseInstruction, unpauseInstruction } from '../../protocol/vault/admin_actions'
import { requestExitInstruction } from '../../protocol/vault/request_exit'
import { mintTo } from './chain_folder'
import { fundedWallet } from './transfer'
import { randomField, USDC, VaultWorld } from './vault_world'

const mint = decodeBase58(USDC, 32)!

/** A finalized deposit of `amount` whose owner asks for it back; resolves once the request landed. */
async function requestExit(world: VaultWorld, amount: bigint) {
  const owner = await fundedWallet(world.chain)
  const key = decodeBase58(owner.address, 32)!
  const blinding = randomField()
  await world.depositAs(() => noteInner(key, blinding), [amount])
  await world.sink.until(() => world.sink.told.length === 1)
  await mintTo(world.chain, USDC, owner.address, 1n)
  const proof = await world.hash.inclusion(0)
  const nullifier = nullifierOf(proof.leaf, blinding)
  const destination = decodeBase58(await associatedTokenAddress(owner.address, USDC), 32)!
  const instruction = requestExitInstruction({
    program: world.program,
    owner: key,
    payer: key,
    mint,
    opening: { form: 'deposit', amount, blinding, leaf_index: 0 },
    nullifier,
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination,
    refund_inner: randomField(),
    path: proof.siblings,
  })
  const send = () => world.send(owner, toInstruction(instruction, [owner]))
  await send()
  return { nullifier, destination, send }
}

const stages = (world: VaultWorld): string[] => world.sink.exits.map(({ stage }) => stage)

test('a request is told at confirmed, again at finalized, and a batch serves it', async () => {
  const world = await VaultWorld.open()
  await world.boot()
  const { nullifier, destination } = await requestExit(world, 5_000n)
  await world.sink.until(() => stages(world).includes('finalized'))
  expect(stages(world)).toEqual(['confirmed', 'finalized'])
  expect(world.sink.exits[0]).toMatchObject({ nullifier, mint, amount: 5_000n, destination })
  const payout = {
    kind: 'exit' as const,
    mint,
    destination,
    amount: 5_000n,
    refund_inner: new Uint8Array(32),
  }
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.outbox.stages.at(-1)!.payouts).toEqual([{ outcome: 'paid' }])
  const usdc = (await world.port.readMints()).find((one) => toHex(one.mint) === toHex(mint))!
  expect([usdc.balance, usdc.liabilities]).toEqual([0n, 0n])
  await world.close()
})

test('a request that a fork takes back is told as vanished', async () => {
  const world = await VaultWorld.open({}, 40)
  await world.boot()
  await requestExit(world, 5_000n)
  await world.sink.until(() => stages(world).includes('confirmed'))
  world.chain.fork(35)
  await world.sink.until(() => stages(world).includes('vanished'))
  expect(stages(world)).toEqual(['confirmed', 'vanished'])
  await world.close()
})

test('a pause is told once, settles nothing, and batches go on after it', async () => {
  const world = await VaultWorld.open()
  await world.deposit(5_000n)
  await world.boot()
  const admin = await createKeyPairSignerFromPrivateKeyBytes(world.chain.admin_seed)
  const fields = { program: world.program, admin: decodeBase58(admin.address, 32)! }
  await world.send(admin, toInstruction(pauseInstruction(fields), [admin]))
  await world.sink.until(() => world.sink.halts.length > 0)
  expect(world.sink.halts).toEqual(['vault_paused'])
  expect(world.port.health().reasons).toContain('vault_paused')
  world.outbox.add(world.nextPayload())
  await world.send(admin, toInstruction(unpauseInstruction(fields), [admin]))
  await world.outbox.until(() => world.outbox.stageOf(1) === 'finalized')
  expect(world.sink.halts).toEqual(['vault_paused'])
  expect(world.port.health().reasons).toEqual([])
  await world.close()
})
