/** Reads the vault's accounts: config, trees, known states, payout queue, mints and exit requests. */

import type { Address, Commitment } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { readU64Le, toHex } from '../../../protocol/bytes'
import {
  ACCOUNT_BYTES,
  type ConfigAccount,
  decodeAnnouncement,
  decodeConfig,
  decodeExitRequest,
  decodeMintRecord,
  decodeQueue,
  decodeRing,
  decodeTree,
  type MintRecord,
  type QueueAccount,
  type RingAccount,
  type TreeAccount,
} from '../../../protocol/vault/accounts'
import { type AnnouncedEntry, announcedEntry } from '../../../protocol/vault/admin'
import { LIMITS } from '../../limits'
import type { ChainPort, ExitRequest, VaultConfig, VaultMint } from '../../ports'
import { addressOf, type ChainClient, chainAddresses } from './chain_client'
import { type Answer, type Reader, RpcPool, textOf, wholeOf } from './rpc_pool'
import type { Level } from './slot_view'

/** Needed to read accounts: a provider or the pool, and the vault's addresses. */
export type VaultReader = { rpc: Reader; address: ChainClient['address'] }

/** The sysvar of the cluster's time: slot, epoch and its start, leader schedule, unix seconds. */
const CLOCK = 'SysvarC1ock11111111111111111111111111111111' as Address
const CLOCK_BYTES = 40
const CLOCK_UNIX_AT = 32
/** Offset of the amount in an SPL token account (same in Token-2022). */
const TOKEN_AMOUNT_AT = 64

export type VaultSnapshot = { slot: number; config: ConfigAccount; tree: TreeAccount; ring: RingAccount }

/** The vault's accounts are absent or have an unknown layout: wrong program id or wrong cluster. */
export class VaultUnreadable extends Error {}
/** The program has no vault yet: `initialize` has not landed. */
export class VaultAbsent extends VaultUnreadable {}

/**
 * Reads config, note tree and known states in one request, all at one slot.
 * @throws VaultUnreadable, ChainUnavailable
 */
async function readVault({ rpc, address }: VaultReader, commitment: Commitment): Promise<VaultSnapshot> {
  const { slot, data } = await readState({ rpc, address }, ['config', 'tree', 'ring'], commitment)
  return { slot, ...decodeVault(data) }
}

function decodeVault(data: readonly Uint8Array[]): Omit<VaultSnapshot, 'slot'> {
  const [config, tree, ring] = [decodeConfig(data[0]!), decodeTree(data[1]!), decodeRing(data[2]!)]
  if (!config || !tree || !ring) throw new VaultUnreadable('the vault has an unknown layout')
  return { config, tree, ring }
}

/** Config and the chain's clock (unix seconds), of one slot. @throws VaultUnreadable, ChainUnavailable */
export async function readConfigAndClock(
  { rpc, address }: VaultReader,
  commitment: Commitment,
): Promise<{ slot: number; config: ConfigAccount; unix_s: number }> {
  const { context, value } = await rpc.read((endpoint, abortSignal) =>
    endpoint
      .getMultipleAccounts([address.config, CLOCK], { commitment, encoding: 'base64' })
      .send({ abortSignal }),
  )
  const [config, clock] = value.map((account) => account && bytesOf(account.data[0]))
  const decoded = config && value[0]!.owner === address.program ? decodeConfig(config) : undefined
  if (!decoded || clock?.length !== CLOCK_BYTES) throw new VaultUnreadable('the vault has an unknown layout')
  return { slot: wholeOf(context.slot), config: decoded, unix_s: Number(readU64Le(clock, CLOCK_UNIX_AT)) }
}

/** The payout queue of one slot. @throws VaultUnreadable, ChainUnavailable */
export async function readQueue(
  client: VaultReader,
  commitment: Commitment,
): Promise<QueueAccount & { slot: number }> {
  const { slot, data } = await readState(client, ['queue'], commitment)
  return { slot, ...queueOf(data[0]!) }
}

function queueOf(data: Uint8Array): QueueAccount {
  const queue = decodeQueue(data)
  if (!queue) throw new VaultUnreadable('the payout queue has an unknown layout')
  return queue
}

/** Data of an account of the program, as a quorum shows it; undefined when absent. @throws ChainUnavailable */
export function readProgramAccount(
  { rpc, address }: Pick<ChainClient, 'rpc' | 'address'>,
  account: Uint8Array,
  commitment: Level = 'finalized',
): Promise<Uint8Array | undefined> {
  const named = addressOf(account)
  const read = async (reader: Reader) => {
    const { value } = await reader.read((endpoint, abortSignal) =>
      endpoint.getAccountInfo(named, { commitment, encoding: 'base64' }).send({ abortSignal }),
    )
    return value?.owner === address.program ? bytesOf(value.data[0]) : undefined
  }
  return rpc.agree(read, textOf)
}

/** Data of state accounts, all of one slot. */
async function readState(
  { rpc, address }: VaultReader,
  names: readonly (keyof ChainClient['address'])[],
  commitment: Commitment,
  minContextSlot = 0n,
): Promise<{ slot: number; data: Uint8Array[] }> {
  const addresses = names.map((name) => address[name])
  const config = { commitment, encoding: 'base64', minContextSlot } as const
  const { context, value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getMultipleAccounts(addresses, config).send({ abortSignal }),
  )
  const data = value.map((account) => {
    if (account?.owner !== address.program) throw new VaultAbsent('the vault does not exist at this program')
    return bytesOf(account.data[0])
  })
  return { slot: wholeOf(context.slot), data }
}

type WholeVault = VaultSnapshot & { queue: QueueAccount }

async function readWhole(client: VaultReader, level: Level, minContextSlot: bigint): Promise<WholeVault> {
  const names = ['config', 'tree', 'ring', 'queue'] as const
  const { slot, data } = await readState(client, names, level, minContextSlot)
  return { slot, ...decodeVault(data), queue: queueOf(data[3]!) }
}

/**
 * The vault as each provider shows it, without answers that are too old to count.
 * @param seen as in `SlotView.fresh`
 * @throws VaultUnreadable, ChainUnavailable
 */
export async function readVaults(
  { rpc, address, view }: Pick<ChainClient, 'rpc' | 'address' | 'view'>,
  level: Level,
  seen?: number[],
): Promise<Answer<VaultSnapshot>[]> {
  return view.fresh(level, await rpc.all((reader) => readVault({ rpc: reader, address }, level)), seen)
}

/** A pool, and the answers of its providers if a view of them is kept. */
type Providers = Pick<ChainClient, 'rpc' | 'address'> & { view?: ChainClient['view'] }
/** The slot of a level that a quorum has shown. */
const shownSlot = ({ view }: Providers, level: Level = 'finalized'): number => view?.agreed(level) ?? 0

/**
 * The newest vault at a level that a quorum of providers supports: shows it, or a later state of the same history.
 * @throws VaultUnreadable, ChainUnavailable
 */
export function readAgreedVault(client: Providers, level: Level = 'finalized'): Promise<WholeVault> {
  const { rpc, address } = client
  const supportersOf = (recent: readonly Answer<WholeVault>[], one: Answer<WholeVault>) =>
    recent.filter((other) => supports(other.value, one.value))
  return rpc.agreeRecent(
    (reader, slot_min) => readWhole({ rpc: reader, address }, level, slot_min),
    shownSlot(client, level),
    (recent) => {
      const supported = recent.filter((one) => supportersOf(recent, one).length >= rpc.quorum)
      // Two that exclude each other: the next read is of a later slot.
      const newest = supported.find((one) => supported.every((other) => supports(one.value, other.value)))
      return newest && [newest, ...supportersOf(recent, newest).filter((one) => one !== newest)]
    },
  )
}

/** Whether `other` is `one` or follows it: counters did not go back, and all else is equal where its counter is. */
function supports(other: WholeVault, one: WholeVault): boolean {
  const [later, earlier] = [historyOf(other), historyOf(one)]
  return earlier.every(([counter, rest], at) => {
    const [counter_later, rest_later] = later[at]!
    return counter_later > counter || (counter_later === counter && rest_later === rest)
  })
}

/**
 * Each counter of the vault with the fields it versions; fields that only the admin changes are under a counter that never
 * moves.
 */
function historyOf({ config, tree, queue }: WholeVault): [counter: number, rest: string][] {
  const { journal_seq, journal_head, commit_seq, commit_head, ...others } = config
  const { last_batch, spent_count, settled_leaf_count, ...rest } = others
  const { next_number, entries, capacity } = queue
  return [
    [journal_seq, toHex(journal_head)],
    [commit_seq, toHex(commit_head)],
    [last_batch, `${spent_count} ${settled_leaf_count} ${toHex(tree.spent_root)}`],
    [tree.leaf_count, toHex(tree.root)],
    // Entries ever queued, and entries ever closed.
    [2 * (next_number - 1) - entries.length, textOf([next_number, entries])],
    [capacity, ''],
    [0, textOf(rest)],
  ]
}

/**
 * The vault's configuration and roots with the support of a quorum, and the finalized announcements. @throws VaultUnreadable,
 * ChainUnavailable
 */
export async function readConfig(client: Providers, level: Level = 'finalized'): Promise<VaultConfig> {
  const [{ slot, config, tree, queue }, announcements] = await Promise.all([
    readAgreedVault(client, level),
    readAnnouncements(client),
  ])
  const { announced } = announcements
  return {
    slot: Math.min(slot, announcements.slot),
    admin: config.admin,
    settlement_signer: config.settlement_signer,
    exit_delay_s: config.exit_delay_s,
    epoch: config.epoch,
    boot_nonce: config.boot_nonce,
    generation: config.generation,
    last_batch: config.last_batch,
    journal_seq: config.journal_seq,
    journal_head: config.journal_head,
    commit_seq: config.commit_seq,
    commit_head: config.commit_head,
    spent_root: tree.spent_root,
    spent_count: config.spent_count,
    queue: {
      capacity: queue.capacity,
      next_number: queue.next_number,
      entries: queue.entries
        .map(({ number, kind, mint, amount, destination, nullifier, queued_slot }) => {
          return { number, kind, mint, amount, destination, queued_slot, ...(nullifier && { nullifier }) }
        })
        .sort((a, b) => a.number - b.number),
    },
    leaf_count: tree.leaf_count,
    note_root: tree.root,
    frozen: config.frozen,
    paused: config.paused,
    pending: pendingOf(config),
    announced,
    outage:
      config.outage_at_s === 0
        ? undefined
        : { outage_at_s: config.outage_at_s, outage_extra_s: config.outage_extra_s },
  }
}

function pendingOf(config: ConfigAccount): VaultConfig['pending'] {
  const pending: VaultConfig['pending'] = []
  const { pending_admin, pending_restore_at_s, generation } = config
  if (pending_admin) {
    const value = encodeBase58(pending_admin.key)
    pending.push({ action: 'set_admin', effective_unix_s: pending_admin.effective_at_s, value })
  }
  if (pending_restore_at_s > 0) {
    pending.push({
      action: 'authorize_restore',
      effective_unix_s: pending_restore_at_s,
      value: String(generation + 1),
    })
  }
  return pending
}

export type Deployment = Pick<ChainPort, 'genesis_hash' | 'program_id' | 'config_account'> & {
  config: VaultConfig
}

/**
 * Identity and finalized config of a vault, read without opening a venue.
 * @throws VaultUnreadable when the program has no vault; ChainUnavailable when no endpoint answers
 */
export async function readDeployment(
  rpc_urls: readonly string[],
  program_id: Uint8Array,
): Promise<Deployment> {
  const rpc = new RpcPool(rpc_urls, LIMITS.rpc_call_ms)
  try {
    const addresses = chainAddresses(program_id)
    return {
      genesis_hash: await readGenesis(rpc),
      program_id,
      config_account: addresses.vault.config,
      config: await readConfig({ rpc, ...addresses }),
    }
  } finally {
    rpc.close()
  }
}

/** The genesis hash that a quorum of providers shows. @throws VaultUnreadable, ChainUnavailable */
export async function readGenesis(rpc: RpcPool): Promise<Uint8Array> {
  const read = (reader: Reader) =>
    reader.read((endpoint, abortSignal) => endpoint.getGenesisHash().send({ abortSignal }))
  const hash = decodeBase58(await rpc.agree(read, (genesis) => genesis), 32)
  if (hash === undefined) throw new VaultUnreadable('the genesis hash of the providers is malformed')
  return hash
}

/** Addresses and records of all registered mints, in order of registration. @throws ChainUnavailable */
export async function readMintRecords(
  client: VaultReader,
  minContextSlot?: bigint,
): Promise<{ address: Address; record: MintRecord }[]> {
  const { accounts } = await readAccounts(client, 'mint_record', 'finalized', minContextSlot)
  return accounts
    .map(({ address, data }) => ({ address, record: decodeMintRecord(data) }))
    .filter((entry): entry is { address: Address; record: MintRecord } => entry.record !== undefined)
    .sort((a, b) => a.record.mint_index - b.record.mint_index)
}

/**
 * The admin's finalized announcements in the order of the records' addresses, as a quorum shows them. @throws ChainUnavailable
 */
export function readAnnouncements(client: Providers): Promise<{ slot: number; announced: AnnouncedEntry[] }> {
  const { rpc, address } = client
  return rpc.agreeRecent(async (reader, slot_min) => {
    const shown = await readAccounts({ rpc: reader, address }, 'announcement', 'finalized', slot_min)
    const announced = shown.accounts
      .sort((a, b) => (a.address < b.address ? -1 : 1))
      .map(({ data }) => decodeAnnouncement(data))
      .filter((record) => record !== undefined)
      .map(announcedEntry)
    return { slot: shown.slot, announced }
  }, shownSlot(client))
}

/** Registered mints with the vault's liabilities and balance, each pair read at one slot, as a quorum shows them. @throws ChainUnavailable */
export async function readMints(client: Providers): Promise<VaultMint[]> {
  const { rpc, address } = client
  const { slot, mints } = await rpc.agreeRecent(
    (reader, slot_min) => readShownMints({ rpc: reader, address }, slot_min),
    shownSlot(client),
  )
  return mints.map((mint) => ({ ...mint, slot }))
}

type ShownMint = Omit<VaultMint, 'slot'>

/** `slot`: the oldest of all readings. */
async function readShownMints(
  client: VaultReader,
  slot_min: bigint,
): Promise<{ slot: number; mints: ShownMint[] }> {
  const records = await readMintRecords(client, slot_min)
  const size = LIMITS.rpc_accounts_max / 2
  const read: { slot: number; mints: ShownMint[] }[] = []
  for (let at = 0; at === 0 || at < records.length; at += size)
    read.push(await readBalances(client, records.slice(at, at + size), slot_min))
  return { slot: Math.min(...read.map(({ slot }) => slot)), mints: read.flatMap(({ mints }) => mints) }
}

async function readBalances(
  client: VaultReader,
  mints: { address: Address; record: MintRecord }[],
  minContextSlot: bigint,
): Promise<{ slot: number; mints: ShownMint[] }> {
  const vaults = mints.map(({ record }) => addressOf(record.vault_token))
  const addresses = [...mints.map((mint) => mint.address), ...vaults]
  const config = { commitment: 'finalized', encoding: 'base64', minContextSlot } as const
  const { context, value } = await client.rpc.read((endpoint, abortSignal) =>
    endpoint.getMultipleAccounts(addresses, config).send({ abortSignal }),
  )
  const data = value.map((account) => account && bytesOf(account.data[0]))
  const shown = mints.flatMap((_, at): ShownMint[] => {
    const record = data[at] && decodeMintRecord(data[at])
    const vault = data[mints.length + at]
    if (!record || !vault) return []
    const { mint, vault_token, decimals, liabilities, freezable, min_deposit, min_exit } = record
    const balance = readU64Le(vault, TOKEN_AMOUNT_AT)
    const bounds = { freezable, min_deposit, min_exit }
    return [{ mint, vault: vault_token, decimals, balance, liabilities, ...bounds }]
  })
  return { slot: wholeOf(context.slot), mints: shown }
}

/** `served`: a batch has queued its payout, and only the bond is left. */
export type OpenExit = Omit<ExitRequest, 'stage'> & { served: boolean; bond_payer: Uint8Array }

/** The exit requests of one slot by request account, earliest deadline first. @throws ChainUnavailable */
export async function readExitRequests(
  client: VaultReader,
  commitment: Commitment,
): Promise<{ slot: number; requests: Map<string, OpenExit> }> {
  const requests: [string, OpenExit][] = []
  const { slot, accounts } = await readAccounts(client, 'exit_request', commitment)
  for (const { address, data } of accounts) {
    const decoded = decodeExitRequest(data)
    if (!decoded) continue
    const { nullifier, commitment, mint, amount, destination, refund_inner, served, bond_payer } = decoded
    requests.push([
      address,
      {
        nullifier,
        commitment,
        mint,
        amount,
        destination,
        refund_inner,
        served,
        bond_payer,
        deadline_unix_s: decoded.deadline_s,
        request_account: decodeBase58(address, 32)!,
      },
    ])
  }
  return { slot, requests: new Map(requests.sort(([, a], [, b]) => a.deadline_unix_s - b.deadline_unix_s)) }
}

/** All accounts of the program of one kind: each kind has a size that no other has. */
async function readAccounts(
  { rpc, address }: VaultReader,
  kind: 'mint_record' | 'exit_request' | 'announcement',
  commitment: Commitment,
  minContextSlot = 0n,
): Promise<{ slot: number; accounts: { address: Address; data: Uint8Array }[] }> {
  const size = { dataSize: BigInt(ACCOUNT_BYTES[kind]) }
  const config = {
    commitment,
    encoding: 'base64',
    filters: [size],
    withContext: true,
    minContextSlot,
  } as const
  const { context, value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getProgramAccounts(address.program, config).send({ abortSignal }),
  )
  const accounts = value.map(({ pubkey, account }) => ({ address: pubkey, data: bytesOf(account.data[0]) }))
  return { slot: wholeOf(context.slot), accounts }
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'))
}
