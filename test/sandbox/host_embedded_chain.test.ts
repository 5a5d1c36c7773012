/** The embedded chain on its own thread: goes on after every end, ends with its process, and takes the venue with it. */
import { expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeBase58 } from '../../protocol/base58'
import { hostEmbeddedChain } from '../../sandbox/chain/host_embedded_chain'
import { VenueProcess } from '../faults/kit/venue_process'
import { callRpc, chainFolder } from '../kit/chain/chain_folder'

const ROOT = join(import.meta.dir, '../..')
const genesis = {
  program_path: join(ROOT, 'program/vault.so'),
  settlement_signer: new Uint8Array(32).fill(7),
}
const host = (dir: string) =>
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
  const first = await host(folder.dir)
  const genesis_hash = await callRpc<string>(first, 'getGenesisHash', [])
  const slot = await callRpc<number>(first, 'getSlot', [])
  await first.close()
  await first.close()
  const again = await host(folder.dir)
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
  const said = await host(folder.dir).then(
    () => 'opened',
    (error: Error) => error.message,
  )
  expect(said).toContain('the embedded chain did not open: file is not a database')
  folder.remove()
}, 120_000)

test('a folder whose chain runs already is refused', async () => {
  const folder = chainFolder()
  const first = await host(folder.dir)
  const said = await host(folder.dir).then(
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
