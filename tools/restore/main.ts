/** `bun run restore`: verifies a backup before a venue is started on it. */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type BackupVerdict, verifyBackup } from '../../engine/boot/verify_backup'
import { type Deployment, readDeployment } from '../../engine/chain/client/read_vault'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { runCommand, UsageFault } from '../run_command'
import { agentKeys, sandboxKeys, type VenueKeys } from './venue_keys'

const USAGE = `usage: bun run restore --verify DIR (--laptop DATA_DIR | --rpc URL[,URL] --program ID [--socket PATH])

  --verify DIR       replays the journal of a backup and compares it with the chain; DIR is not changed
  --laptop DATA_DIR  keys and chain of a venue on this machine, running or not
  --rpc, --program   JSON-RPC endpoints and the vault program (default SOLANA_RPC_URL, TACIT_PROGRAM_ID)
  --socket PATH      guest agent that gives the keys (default TACIT_DSTACK_SOCKET or /var/run/dstack.sock)

Ends with 0 when a venue may be started on the backup, with 1 when it would refuse to trade and why, with 64 on a
usage error.`

const FAULTS: Record<NonNullable<BackupVerdict['fault']>, string> = {
  rolled_back: 'the chain is ahead of this backup: a newer one is needed, or a restore from the chain',
  forked: 'another instance has opened an epoch that this journal does not know',
  chain_unknown: 'the chain does not know what this journal finalized: it is another chain or was reset',
}

const OPTIONS = {
  verify: { type: 'string' },
  laptop: { type: 'string' },
  rpc: { type: 'string' },
  program: { type: 'string' },
  socket: { type: 'string' },
} as const

type Options = Partial<Record<keyof typeof OPTIONS, string>>

async function run(args: string[]): Promise<boolean> {
  const { values } = parseArgs({ args, options: OPTIONS, strict: true })
  if (values.verify === undefined) throw new UsageFault()
  const keys = await readKeys(values)
  const chain = await withRpc(values, readDeployment)
  const verdict = await verifyBackup({ dir: values.verify, keys, chain })
  console.log(JSON.stringify(report(verdict, chain), null, 2))
  return verdict.fault === undefined && verdict.snapshot?.agrees !== false
}

function readKeys(values: Options): Promise<VenueKeys> | VenueKeys {
  if (values.laptop !== undefined) return sandboxKeys(values.laptop)
  return agentKeys(values.socket ?? process.env['TACIT_DSTACK_SOCKET'] ?? '/var/run/dstack.sock')
}

/** Uses the chain of a running sandbox through its RPC; opens the chain of a stopped one here. */
async function withRpc(
  values: Options,
  read: (rpc_urls: string[], program_id: Uint8Array) => Promise<Deployment>,
): Promise<Deployment> {
  const { laptop: data_dir } = values
  if (data_dir === undefined) {
    const rpc = values.rpc ?? process.env['SOLANA_RPC_URL']
    const program = decodeBase58(values.program ?? process.env['TACIT_PROGRAM_ID'] ?? '', 32)
    if (rpc === undefined || program === undefined) throw new UsageFault()
    return read(rpc.split(','), program)
  }
  const facts = join(data_dir, 'laptop.json')
  if (existsSync(facts)) {
    const { rpc_url, program_id } = JSON.parse(readFileSync(facts, 'utf8')) as Record<string, string>
    const answers = await fetch(rpc_url!).then(
      () => true,
      () => false,
    )
    if (answers) return read([rpc_url!], decodeBase58(program_id!, 32)!)
  }
  const chain = await openEmbeddedChain({ data_dir: join(data_dir, 'chain'), slot_ms: 0 })
  try {
    if (chain.program_id === undefined) throw new Error('the chain of this sandbox has no vault')
    return await read([chain.url], chain.program_id)
  } finally {
    await chain.close()
  }
}

function report(verdict: BackupVerdict, { config }: Deployment): Record<string, unknown> {
  const { fault, snapshot, head, state_hash, ...counts } = verdict
  return {
    backup: { ...counts, head: toHex(head), state_hash: toHex(state_hash), snapshot: snapshot ?? null },
    chain: {
      epoch: config.epoch,
      generation: config.generation,
      last_batch: config.last_batch,
      journal_seq: config.journal_seq,
      journal_head: toHex(config.journal_head),
    },
    may_trade: fault === undefined && snapshot?.agrees !== false,
    ...(fault === undefined ? {} : { fault, means: FAULTS[fault] }),
    ...(snapshot?.agrees === false ? { snapshot_means: 'the snapshot is not what the journal gives' } : {}),
  }
}

await runCommand(USAGE, run)
