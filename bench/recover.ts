/**
 * Measures the recovery of a wallet from a vault with many leaves: `bun bench/recover.ts [--leaves N] [--tail BATCHES]`. First
 * everything is read from a node, then an archive and the batches after it, then the archive from a mirror. The node is a
 * process of this machine that answers at once, so a real one adds its latency to each call.
 */
import { openChainReader } from '../client/chain/chain_access'
import { confirmBatches, currentHistory, type HistoryFrom } from '../client/chain/current_history'
import { nullifierOfNote } from '../client/wallet/absorb'
import { hashFast } from '../client/wallet/hash_fast'
import { recoverWallet } from '../client/wallet/recover'
import { toHex } from '../protocol/bytes'
import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers } from './kit/figures'
import type { MadeVault } from './venue/vault_node'

const { leaves, tail, fills, unfilled } = numbers({ leaves: 1_000_000, tail: 100, fills: 20, unfilled: 100 })
/** Of the wallet's deposit: the fills only divide it. */
const BALANCE = 1_000_000n

hashFast()
const seed = crypto.getRandomValues(new Uint8Array(32))
const node = startChild('venue/vault_node.ts')

await runBench('recover', [node], async (dir) => {
  const made = { leaves, fills, unfilled, seed: [...seed] }
  const { rpc_url, program_id } = await node.ask<MadeVault>('make', made)
  const chain = openChainReader(rpc_url)
  const recover = async (figure: string, from: HistoryFrom): Promise<Figure[]> => {
    await node.ask('calls')
    const [started, cpu_before] = [performance.now(), process.cpuUsage()]
    const current = await currentHistory(chain, program_id, from)
    const { history, vault } = current.proofs
    const { notes } = recoverWallet(seed, history, vault.config.generation).state
    const spent_in = new Set(notes.flatMap((note) => history.spent.get(toHex(nullifierOfNote(note))) ?? []))
    await confirmBatches(chain, program_id, current, { spent_in, seed })
    const seconds = (performance.now() - started) / 1_000
    const held = notes.filter(({ state }) => state !== 'spent')
    if (held.reduce((sum, { amount }) => sum + BigInt(amount), 0n) !== BALANCE)
      throw new Error('notes are missing')
    const calls = await node.ask<number>('calls')
    const { user, system } = process.cpuUsage(cpu_before)
    return [
      { figure: `${figure}, time`, value: seconds, unit: 's' },
      { figure: `${figure}, processor time`, value: (user + system) / 1e6, unit: 's' },
      { figure: `${figure}, calls`, value: calls, unit: 'RPC calls' },
    ]
  }
  const whole = await recover('everything from the node', { folder: dir })
  await node.ask('grow', { batches: tail })
  const archived = await recover(`archive and ${tail} batches after it`, { archive: dir })
  const file = (url: string) => Bun.file(`${dir}/${new URL(url).pathname}`)
  const mirror = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async ({ url }) =>
      (await file(url).exists()) ? new Response(file(url)) : new Response('', { status: 404 }),
  })
  const mirrored = await recover('the same from a mirror', { archive: mirror.url.href })
  await mirror.stop(true)
  const most = { figure: 'resident at most', value: process.resourceUsage().maxRSS / 1_024, unit: 'MiB' }
  return [...whole, ...archived, ...mirrored, most]
})
