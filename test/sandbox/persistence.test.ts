/** A killed chain continues: what was reported confirmed or finalized is still there, and slots never repeat. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import {
  createKeyPairSignerFromPrivateKeyBytes,
  generateKeyPairSigner,
  lamports,
  type Signature,
} from '@solana/kit'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { chainFolder, clientsOf } from '../kit/chain/chain_folder'
import { fundedWallet, signedTransfer } from '../kit/chain/transfer'

type Hosted = { url: string; kill(): Promise<void> }

async function host(dir: string): Promise<Hosted> {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, '../kit/chain/host_chain.ts'), dir, '20'],
    {
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  const reader = child.stdout.getReader()
  let line = ''
  while (!line.includes('\n')) {
    const { value, done } = await reader.read()
    if (done) throw new Error('the chain did not start')
    line += new TextDecoder().decode(value)
  }
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await child.exited
  }
  return { ...(JSON.parse(line) as { url: string }), kill }
}

/** Sends one transfer after the other until the chain dies; returns what was reported confirmed. */
async function confirmUntilKilled(chain: Hosted, seed: Uint8Array, to: string, kill_after: number) {
  const { rpc } = clientsOf(chain)
  const from = await createKeyPairSignerFromPrivateKeyBytes(seed)
  const confirmed = new Map<Signature, bigint>()
  const pending = new Set<Signature>()
  let slot = 0n
  for (let amount = 1n; confirmed.size < kill_after; amount++) {
    const { signature, wire } = await signedTransfer(chain, from, to, 1_000_000n + amount)
    await rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: true }).send()
    pending.add(signature)
    slot = await rpc.getSlot({ commitment: 'processed' }).send()
    const { value } = await rpc.getSignatureStatuses([...pending]).send()
    ;[...pending].forEach((one, at) => {
      const status = value[at]
      if (!status || status.confirmationStatus === 'processed') return
      confirmed.set(one, status.slot)
      pending.delete(one)
    })
  }
  await chain.kill()
  return { confirmed, slot }
}

test('kill -9 loses nothing that was reported confirmed, and the same chain goes on', async () => {
  const folder = chainFolder()
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const from = await createKeyPairSignerFromPrivateKeyBytes(seed)
  const to = (await generateKeyPairSigner()).address
  const everything = new Map<Signature, bigint>()
  let [genesis, slot_seen] = ['', 0n]
  try {
    for (let round = 0; round < 4; round++) {
      const chain = await host(folder.dir)
      const { rpc } = clientsOf(chain)
      if (round === 0) {
        genesis = await rpc.getGenesisHash().send()
        await clientsOf(chain).rpc.requestAirdrop(from.address, lamports(50_000_000_000n)).send()
        while ((await rpc.getBalance(from.address, { commitment: 'confirmed' }).send()).value === 0n);
      }
      expect(await rpc.getGenesisHash().send()).toBe(
        genesis as Awaited<ReturnType<ReturnType<typeof rpc.getGenesisHash>['send']>>,
      )
      expect(await rpc.getSlot({ commitment: 'processed' }).send()).toBeGreaterThanOrEqual(slot_seen)
      for (const [signature, slot] of everything) {
        const { value } = await rpc.getSignatureStatuses([signature]).send()
        expect(value[0]).toMatchObject({ slot, err: null, confirmationStatus: 'finalized' })
      }
      const { confirmed, slot } = await confirmUntilKilled(chain, seed, to, 5 + 3 * round)
      for (const [signature, at] of confirmed) everything.set(signature, at)
      slot_seen = slot
    }
    const last = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: 0 })
    const { rpc } = clientsOf(last)
    const page = await rpc.getSignaturesForAddress(to, { commitment: 'finalized' }).send()
    let received = 0n
    for (const { signature } of page) {
      const found = await rpc
        .getTransaction(signature, { encoding: 'base64', maxSupportedTransactionVersion: 1 })
        .send()
      received += found!.meta!.postBalances[1]! - found!.meta!.preBalances[1]!
    }
    expect(page.length).toBeGreaterThanOrEqual(everything.size)
    const { value } = await rpc.getBalance(to).send()
    expect(value as bigint).toBe(received)
    await last.close()
  } finally {
    folder.remove()
  }
}, 120_000)

test('a second process on the same data is refused', async () => {
  const folder = chainFolder()
  const first = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: 0 })
  await fundedWallet(first)
  await expect(openEmbeddedChain({ data_dir: folder.dir, slot_ms: 0 })).rejects.toThrow()
  await first.close()
  folder.remove()
})
