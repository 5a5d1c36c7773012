/** Lists what a provider can lie about for as long as it wants, one kind at a time. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { u64Le } from '../../../protocol/bytes'
import { decodeEvent, type VaultEvent } from '../../../protocol/vault/events'
import { bendBatch, bendConfig, bendTree, type Lie } from './lying_endpoint'

type Lies = Record<string, Lie>
type Context = { context: { slot: number } }

/** In a config account (protocol/vault/accounts.ts). */
const FROZEN_AT = 4
const JOURNAL_SEQ_AT = 40
const FAR_SLOTS = 1_000_000
/** The last byte of the commitment in a `deposited` event (protocol/vault/events.ts). */
const DEPOSITED_COMMITMENT_AT = 113
const EXIT_BYTES = 240

export const frozen = (): Lies => ({
  getMultipleAccounts: (result) => bendConfig(result, (data) => data.set([1], FROZEN_AT)),
})

export const advancedHead = (): Lies => ({
  getMultipleAccounts: (result) =>
    bendConfig(result, (data) =>
      data.set(u64Le(data.readBigUInt64LE(JOURNAL_SEQ_AT) + 1_000_000n), JOURNAL_SEQ_AT),
    ),
})

/** Slots and heights a million ahead, of the node and of everything that it reads. */
export const farSlot = (): Lies => {
  const far: Lie = (result) => {
    const answer = structuredClone(result) as Context
    answer.context.slot += FAR_SLOTS
    return answer
  }
  const getEpochInfo: Lie = (result) => {
    const { absoluteSlot, blockHeight } = result as { absoluteSlot: number; blockHeight: number }
    return {
      ...(result as object),
      absoluteSlot: absoluteSlot + FAR_SLOTS,
      blockHeight: blockHeight + FAR_SLOTS,
    }
  }
  return { getEpochInfo, getMultipleAccounts: far, getProgramAccounts: far }
}

/** The last answer about the same accounts from before the lie, else the first one after, with its slot or as if it were new. */
function first(with_slot: boolean): Lie {
  const answers = new Map<string, Context>()
  return (result, { params, before }) => {
    const name = JSON.stringify(params[0]) + (params[1] as { commitment: string }).commitment
    const known = answers.get(name) ?? (before as Context | undefined)
    if (!known) answers.set(name, structuredClone(result) as Context)
    if (!known) return undefined
    return with_slot ? known : { ...known, context: (result as Context).context }
  }
}

/** The tree with five leaves more and a root that nothing has. */
export const inventedLeaves = (): Lies => ({
  getMultipleAccounts: (result) =>
    bendTree(result, (data) => {
      data.set(u64Le(data.readBigUInt64LE(8) + 5n), 8)
      data.set(new Uint8Array(32).fill(9), 16)
    }),
})

/** Another root of the same tree. */
export const forgedRoot = (): Lies => ({
  getMultipleAccounts: (result) => bendTree(result, (data) => data.set(new Uint8Array(32).fill(9), 16)),
})

/** A batch less than landed. */
export const lowerBatch = (): Lies => ({
  getMultipleAccounts: (result) => bendBatch(result, (last) => last - 1),
})

/** Transactions in a later slot than theirs, so that what is recorded of them would be false. */
export const forgedTransactions = (): Lies => ({
  getTransaction: (result) => {
    const found = result as { slot: number } | null
    return found === null ? undefined : { ...found, slot: found.slot + 1 }
  },
})

/** Deposits of another commitment than the one that the tree took up. */
export const forgedLeaves = (): Lies =>
  bentEvents(({ kind }) => (kind === 'deposited' ? DEPOSITED_COMMITMENT_AT : undefined))
/** Batches that spent another note. */
export const forgedSpends = (): Lies =>
  bentEvents((event, data) =>
    event.kind === 'settled' ? Buffer.from(data).indexOf(event.nullifiers[0]!) + 31 : undefined,
  )

/** Events with one bit changed, of the byte that `placeOf` names. */
const bentEvents = (placeOf: (event: VaultEvent, data: Uint8Array) => number | undefined): Lies => ({
  getTransaction: (result) => {
    const found = result as { meta: { innerInstructions: { instructions: { data: string }[] }[] } } | null
    for (const inner of found?.meta.innerInstructions.flatMap(({ instructions }) => instructions) ?? []) {
      const data = decodeBase58(inner.data)
      const event = data && decodeEvent(data)
      const at = event && placeOf(event, data)
      if (at !== undefined) inner.data = encodeBase58(data!.with(at, data![at]! ^ 1))
    }
    return found ?? undefined
  },
})
export const stale = (): Lies => ({ getMultipleAccounts: first(true) })

/** Accounts as they were, at the newest slot, and no newer transactions. */
export const missingDeposit = (): Lies => ({
  getMultipleAccounts: first(false),
  getSignaturesForAddress: () => [],
})

export const notFound = (): Lies => ({
  getSignatureStatuses: (result) => {
    const { context, value } = result as Context & { value: unknown[] }
    return { context, value: value.map(() => null) }
  },
  getTransaction: () => null,
  getSignaturesForAddress: () => [],
})

/** Every signature is final and failed with an error of the program. */
export const forgedError = (code = 7061, confirmationStatus = 'finalized'): Lies => ({
  getSignatureStatuses: (result) => {
    const { context, value } = result as Context & { value: unknown[] }
    const err = { InstructionError: [0, { Custom: code }] }
    const status = { slot: context.slot, confirmations: null, err, status: { Err: err } }
    return { context, value: value.map(() => ({ ...status, confirmationStatus })) }
  },
})

export const isExitRead = (params: unknown[]): boolean =>
  JSON.stringify(params[1]).includes(`"dataSize":${EXIT_BYTES}`)

export const hiddenExits = (): Lies => ({
  getProgramAccounts: (result, { params }) =>
    isExitRead(params) ? { ...(result as object), value: [] } : undefined,
})

/** Open requests with another destination. */
export const bentExits = (): Lies => ({
  getProgramAccounts: (result, { params }) => {
    if (!isExitRead(params)) return undefined
    const answer = result as { value: { account: { data: [string, string] } }[] }
    for (const { account } of answer.value) {
      const data = Buffer.from(account.data[0], 'base64')
      data.set(new Uint8Array(32).fill(7), 112)
      account.data[0] = data.toString('base64')
    }
    return answer
  },
})

const random = (): Uint8Array => crypto.getRandomValues(new Uint8Array(32))
type Invented = { nullifier?: Uint8Array; destination?: Uint8Array; amount?: bigint }

/** The account of an open request for the note of `commitment`, by default with a nullifier that its owner did not choose. */
export function exitAccount(
  program: Uint8Array,
  commitment: Uint8Array,
  mint: Uint8Array,
  { nullifier = random(), destination = random(), amount = 1_000n }: Invented = {},
) {
  const data = Buffer.alloc(EXIT_BYTES)
  data.set([5, 2, 255])
  ;[nullifier, commitment, mint].forEach((bytes, at) => void data.set(bytes, 8 + 32 * at))
  data.set(u64Le(amount), 104)
  const inner = random()
  inner[0]! &= 0x1f
  ;[destination, inner, random()].forEach((bytes, at) => void data.set(bytes, 112 + 32 * at))
  data.set(u64Le(4_000_000_000n), 208)
  const account = { data: [data.toString('base64'), 'base64'], owner: encodeBase58(program) }
  const rest = { executable: false, lamports: 1, rentEpoch: 0, space: EXIT_BYTES }
  return { pubkey: encodeBase58(random()), account: { ...account, ...rest } }
}

export const inventedExits = (entries: readonly ReturnType<typeof exitAccount>[]): Lies => ({
  getProgramAccounts: (result, { params }) => {
    const { context, value } = result as Context & { value: unknown[] }
    return isExitRead(params) ? { context, value: [...value, ...entries] } : undefined
  },
})
export const inventedExit = (...exit: Parameters<typeof exitAccount>): Lies =>
  inventedExits([exitAccount(...exit)])
