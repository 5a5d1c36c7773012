/** `bun run restore`: verifies a backup before a venue is started on it. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { InputFault, Options, runCommand, UsageFault } from '../../client/cli/command'
import { rpcOf } from '../../client/cli/config'
import { getKey } from '../../enclave/agent'
import { KEY_PATHS } from '../../enclave/contract'
import { type BackupVerdict, verifyBackup } from '../../engine/boot/verify_backup'
import { type Deployment, readDeployment } from '../../engine/chain/client/read_vault'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { deriveKey, loadKeys } from '../../sandbox/enclave/machine'

const AGENT_CALL_MS = 10_000
const USAGE = `usage: bun run restore --verify DIR (--laptop DATA_DIR | --rpc URL[,URL] --program ID [--socket PATH])

  --verify DIR       replays the journal of a backup and compares it with the chain; DIR is not changed
  --laptop DATA_DIR  keys and chain of a venue on this machine, running or not
  --rpc, --program   JSON-RPC endpoints and the vault program (default SOLANA_RPC_URL, TACIT_PROGRAM_ID)
  --socket PATH      guest agent that gives the keys (default TACIT_DSTACK_SOCKET or /var/run/dstack.sock)

Ends with 0 when a venue may be started on the backup, with 1 when it would refuse to trade and why, with 64 on a
usage error, with 74 when a file or folder fails.`

const FAULTS: Record<NonNullable<BackupVerdict['fault']>, string> = {
  rolled_back: 'the chain is ahead of this backup: a newer one is needed, or a restore from the chain',
  forked: 'another instance has opened an epoch that this journal does not know',
  chain_unknown: 'the chain does not know what this journal finalized: it is another chain or was reset',
  tail_unsigned: 'records behind the position on chain are not signed by the instance that holds the epoch',
}

const TEXTS = ['verify', 'laptop', 'rpc', 'program', 'socket'] as const
type RestoreOptions = Options<(typeof TEXTS)[number]>

async function run(args: string[]): Promise<boolean> {
  const options: RestoreOptions = new Options(args, { texts: TEXTS })
  const dir = options.text('verify')
  // An unusable word is reported before a guest agent or a provider is asked.
  const laptop = options.optional('laptop')
  const providers = laptop === undefined ? providersOf(options) : undefined
  const keys = laptop === undefined ? await agentKeys(socketOf(options)) : sandboxKeys(laptop)
  const chain = await (laptop === undefined ? readDeployment(...providers!) : readSandboxChain(laptop))
  const verdict = await verifyBackup({ dir, keys, chain })
  console.log(JSON.stringify(report(verdict, chain), null, 2))
  return verdict.fault === undefined && verdict.snapshot?.agrees !== false
}

const socketOf = (options: RestoreOptions): string =>
  options.text('socket', process.env['TACIT_DSTACK_SOCKET'] ?? '/var/run/dstack.sock')

function providersOf(options: RestoreOptions): Parameters<typeof readDeployment> {
  const rpc_urls = rpcOf(options.text('rpc', process.env['SOLANA_RPC_URL'])).split(',')
  const program = decodeBase58(options.text('program', process.env['TACIT_PROGRAM_ID']), 32)
  if (program === undefined) throw new UsageFault('--program is not a Solana address')
  return [rpc_urls, program]
}

/** Uses the chain of a running sandbox through its RPC; opens the chain of a stopped one here. */
async function readSandboxChain(data_dir: string): Promise<Deployment> {
  const facts = join(data_dir, 'laptop.json')
  const chain = await openEmbeddedChain({ data_dir: join(data_dir, 'chain'), slot_ms: 0 }).catch((error) => {
    if (!existsSync(facts)) throw error
  })
  // A running sandbox has locked its chain.
  if (chain === undefined) {
    const { rpc_url, program_id } = JSON.parse(readFileSync(facts, 'utf8')) as Record<string, string>
    return readDeployment([rpc_url!], decodeBase58(program_id!, 32)!)
  }
  try {
    if (chain.program_id === undefined) throw new Error('the chain of this sandbox has no vault')
    return await readDeployment([chain.url], chain.program_id)
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

await runCommand(USAGE, run, (error) => {
  const { message, syscall } = error as NodeJS.ErrnoException
  if (error instanceof InputFault) return { code: 64, message }
  return syscall === undefined ? { code: 1, message } : undefined
})

export type VenueKeys = { journal_key: Uint8Array }

/** @throws Error that names the socket */
export async function agentKeys(socket: string): Promise<VenueKeys> {
  const journal_key = await getKey(socket, KEY_PATHS.journal, AGENT_CALL_MS).catch((error: Error) => {
    throw new Error(`${socket}: ${error.message}; only the machine that wrote a backup has its key`)
  })
  return { journal_key }
}

/** Only reads the key file, so the sandbox may be running. */
export function sandboxKeys(data_dir: string): VenueKeys {
  const dir = join(data_dir, 'stand-in')
  if (!existsSync(join(dir, 'development-keys.json')))
    throw new Error(`${data_dir} is not the data folder of a sandbox`)
  const keys = loadKeys(dir, new Uint8Array(32))
  return { journal_key: fromHex(deriveKey(keys, KEY_PATHS.journal, 'tacit', 'ed25519').key, 32)! }
}
