/**
 * `bun run audit-batch SYMBOL NUMBER`: recomputes a batch auction of a venue from its journal and compares its hash.
 *
 * The journal is encrypted under a key that only the measured application receives. On the venue's machine the guest
 * agent gives the key to this image (`--socket`). An auditor elsewhere receives a copy of `journal` and `snapshots`, and
 * the journal key in a file (`--key`), from the party that may release it. For a sandbox the key file in its data folder
 * is read (`--laptop`). Without a key, `bun run auction FILE` recomputes the published record of a single batch.
 */
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { batchSeed } from '../../engine/sequencer/seeds'
import { toHex } from '../../protocol/bytes'
import { agentKeys, sandboxKeys } from '../restore/venue_keys'
import { type BatchAudit, recomputeBatch } from './recompute_batch'

const USAGE = `usage: bun run audit-batch SYMBOL NUMBER (--laptop DATA_DIR | --dir DIR (--socket PATH | --key FILE)) [--venue ID]

  --laptop DATA_DIR  data folder of a venue on this machine, stopped or a copy
  --dir DIR          folder with a journal and, optionally, snapshots; it is not changed
  --socket PATH      guest agent that gives the keys to the measured application
  --key FILE         file with the journal key, 64 hex digits
  --venue ID         venue id of /info, 64 hex digits: checks with the tie-break key that the seed is the promised one

Ends with 0 when the recomputed batch is the recorded one, else with 1, with 64 on a usage error.`

type Keys = { journal_key: Uint8Array; tie_break_key?: Uint8Array }

const TEXTS = ['laptop', 'dir', 'socket', 'key', 'venue'] as const
type AuditOptions = Options<(typeof TEXTS)[number]>

async function run(args: string[]): Promise<boolean> {
  const options: AuditOptions = new Options(args, { texts: TEXTS, words: 2 })
  const [symbol, number] = options.words
  const dir = options.optional('laptop') ?? options.optional('dir')
  if (symbol === undefined || !/^[1-9][0-9]*$/.test(number ?? '') || dir === undefined) throw new UsageFault()
  const venue = options.optional('venue') === undefined ? undefined : options.hex32('venue')
  const keys = await keysOf(options)
  const audit = await onCopy(dir, (copy) =>
    recomputeBatch({ dir: copy, journal_key: keys.journal_key, symbol, batch: Number(number) }),
  )
  const seed_agrees = seedAgrees(audit, keys, venue)
  console.log(JSON.stringify(report(audit, seed_agrees)))
  return audit.agrees && seed_agrees !== false
}

async function keysOf(options: AuditOptions): Promise<Keys> {
  const [data_dir, socket] = [options.optional('laptop'), options.optional('socket')]
  if (data_dir !== undefined) return sandboxKeys(data_dir)
  return socket === undefined ? { journal_key: options.seed('key') } : agentKeys(socket)
}

/** Opening a journal ends its torn last write, and what is audited must stay what it is. */
async function onCopy<T>(dir: string, work: (copy: string) => Promise<T>): Promise<T> {
  if (!existsSync(join(dir, 'journal'))) throw new Error(`${dir} holds no journal`)
  const copy = mkdtempSync(join(tmpdir(), 'tacit-audit-'))
  try {
    for (const part of ['journal', 'snapshots']) {
      if (existsSync(join(dir, part))) cpSync(join(dir, part), join(copy, part), { recursive: true })
    }
    return await work(copy)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Undefined without the key or the venue id. */
function seedAgrees(
  { recorded, epoch }: BatchAudit,
  { tie_break_key }: Keys,
  venue: Uint8Array | undefined,
): boolean | undefined {
  if (tie_break_key === undefined || venue === undefined) return undefined
  const { symbol, batch, seed } = recorded
  return toHex(batchSeed(tie_break_key, venue, epoch, symbol, batch)) === seed
}

function report(audit: BatchAudit, seed_agrees: boolean | undefined): Record<string, unknown> {
  const { recorded, recomputed } = audit
  return {
    symbol: recorded.symbol,
    batch: recorded.batch,
    slot: recorded.slot,
    seq: audit.seq,
    price_ticks: recorded.price_ticks,
    volume_lots: recorded.volume_lots,
    fills: recorded.fills.length,
    recorded_hash: recorded.result_hash,
    recomputed_hash: recomputed === undefined ? null : toHex(recomputed.result_hash),
    agrees: audit.agrees,
    seed_agrees: seed_agrees ?? null,
    replayed_from: audit.replayed_from,
  }
}

await runCommand(USAGE, run)
