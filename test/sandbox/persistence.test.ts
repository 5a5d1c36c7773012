/** The embedded chain on its own thread goes on after every end and kill; confirmed transfers are there, slots never repeat. */

import { expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createKeyPairSignerFromPrivateKeyBytes,
  generateKeyPairSigner,
  lamports,
  type Signature,
} from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import { hostEmbeddedChain } from '../../sandbox/chain/host_embedded_chain'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { VenueProcess } from '../faults/kit/venue_process'
import { callRpc, chainFolder, clientsOf, fundedWallet, signedTransfer } from '../kit/chain/chain_folder'

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

/** Sends one transfer after the other until the chain dies; returns those reported confirmed. */
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

const ROOT = join(import.meta.dir, '../..')
const genesis = {
  program_path: join(ROOT, 'program/vault.so'),
  settlement_signer: new Uint8Array(32).fill(7),
}
const hostOnThread = (dir: string) =>
  hostEmbeddedChain({
    data_dir: dir,
    slot_ms: 20,
    genesis,
    failed(error) {
      throw error
    },
  })

test('closed and hosted again it is the same chain, with its vault', async () => {
  const folder = chainFolder()
  const first = await hostOnThread(folder.dir)
  const genesis_hash = await callRpc<string>(first, 'getGenesisHash', [])
  const slot = await callRpc<number>(first, 'getSlot', [])
  await first.close()
  await first.close()
  const again = await hostOnThread(folder.dir)
  expect(again.program_id).toEqual(first.program_id)
  expect(await callRpc<string>(again, 'getGenesisHash', [])).toBe(genesis_hash)
  expect(await callRpc<number>(again, 'getSlot', [])).toBeGreaterThanOrEqual(slot)
  const config = [encodeBase58(again.program_id), { encoding: 'base64' }]
  const { value } = await callRpc<{ value: { executable: boolean } }>(again, 'getAccountInfo', config)
  expect(value.executable).toBe(true)
  await again.close()
  folder.remove()
}, 120_000)

test('the port that is asked for is taken, and another one while it is in use', async () => {
  const folders = [chainFolder(), chainFolder()]
  const [first, second] = folders.map(({ dir }) => dir)
  const open = (dir: string, port: number) =>
    hostEmbeddedChain({ data_dir: dir, slot_ms: 20, port, genesis, failed: () => undefined })
  const probe = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
  const port = probe.port!
  await probe.stop(true)
  const chains = [await open(first!, port), await open(second!, port)]
  expect(chains[0]!.url).toBe(`http://127.0.0.1:${port}`)
  expect(chains[1]!.url).not.toBe(chains[0]!.url)
  for (const chain of chains) await chain.close()
  for (const folder of folders) folder.remove()
}, 120_000)

test('a folder that holds no chain is refused with the reason', async () => {
  const folder = chainFolder()
  writeFileSync(
    join(folder.dir, 'chain.sqlite'),
    'this is not a database, whatever its name says'.repeat(100),
  )
  const said = await hostOnThread(folder.dir).then(
    () => 'opened',
    (error: Error) => error.message,
  )
  expect(said).toContain('the embedded chain did not open: file is not a database')
  folder.remove()
}, 120_000)

test('a folder whose chain runs already is refused', async () => {
  const folder = chainFolder()
  const first = await hostOnThread(folder.dir)
  const said = await hostOnThread(folder.dir).then(
    () => 'opened',
    (error: Error) => error.message,
  )
  expect(said).toContain('the embedded chain did not open: database is locked')
  await first.close()
  folder.remove()
}, 120_000)

test('a venue whose chain dies says so and ends; the next start goes on with the same data', async () => {
  const preload = `--preload=${join(import.meta.dir, '../kit/chain/break_chain.ts')}`
  const venue = new VenueProcess({ BUN_OPTIONS: preload })
  await venue.start()
  const { program_id } = venue.facts
  venue.signal('SIGUSR2')
  expect(await venue.ended()).toBe(1)
  expect(venue.output).toContain('the embedded chain failed: the chain knows no such request. The venue ends')
  expect(venue.output).toContain('started again, it goes on with the same data')
  expect((await venue.start()).program_id).toBe(program_id)
  expect(await venue.stop()).toBe(0)
  await venue.remove()
}, 120_000)

/** Files that a process has mapped, by /proc. */
const maps = existsSync('/proc/self/maps')

test.skipIf(!maps)(
  'the process loads the virtual machine only where it opens an embedded chain',
  () => {
    const mapped = (path: string): boolean => {
      const look = `await import('./${path}'); console.log(await Bun.file('/proc/self/maps').text())`
      const { stdout, exitCode } = Bun.spawnSync([process.execPath, '--eval', look], { cwd: ROOT })
      expect(exitCode).toBe(0)
      return stdout.toString().includes('litesvm')
    }
    expect(mapped('sandbox/chain/open_embedded_chain.ts')).toBe(true)
    expect(mapped('sandbox/open_sandbox.ts')).toBe(false)
    expect(mapped('server/join_process.ts')).toBe(false)
  },
  120_000,
)
