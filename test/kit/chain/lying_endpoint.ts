/** A JSON-RPC endpoint that passes calls on to an honest one and lies in its answers, and the list of its lies. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { u64Le } from '../../../protocol/bytes'
import { ACCOUNT_BYTES } from '../../../protocol/vault/accounts'
import { decodeEvent, type VaultEvent } from '../../../protocol/vault/events'
import type { Random } from '../random'

/** `before`: the last true answer to an equal call from before the lies about its method began. */
type Call = { method: string; params: unknown[]; before?: unknown }
/** The changed result; undefined keeps the true one. */
export type Lie = (result: unknown, call: Call) => unknown
type Accounts = {
  context: { slot: number }
  value: ({ data: [string, string]; owner: string } | null)[]
}

/** Where the config account keeps its batch id, and how the program begins it (protocol/vault/accounts.ts). */
const BYTES: Record<number, number> = { 1: ACCOUNT_BYTES.config, 2: ACCOUNT_BYTES.tree }
const LAST_BATCH_AT = 24
const FAR_SLOTS = 1_000_000_000
const REMEMBERED = 60

export class LyingEndpoint {
  readonly #server: Bun.Server<undefined>
  /** Changed answers since the lies were last set. */
  lied = 0
  /** By method and original answer. */
  readonly told = new Map<string, number>()
  #lies: Record<string, Lie> = {}
  readonly #truths = new Map<string, unknown>()
  /** Calls are rejected, as by a node that went down. */
  silent = false
  /** Calls are not answered until it is false again. */
  hanging = false
  calls = 0
  /** Methods that were called. */
  readonly asked = new Set<string>()

  constructor(readonly truth_url: string) {
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => this.#answer(await request.text()),
    })
  }

  get url(): string {
    return `http://${this.host}`
  }

  /** As alarms name it. */
  get host(): string {
    return `127.0.0.1:${this.#server.port}`
  }

  set lies(lies: Record<string, Lie>) {
    this.#lies = lies
    this.lied = 0
  }

  async stop(): Promise<void> {
    await this.#server.stop(true)
  }

  note(what: string): void {
    this.told.set(what, (this.told.get(what) ?? 0) + 1)
  }

  async #answer(text: string): Promise<Response> {
    this.calls += 1
    while (this.hanging) await Bun.sleep(5)
    if (this.silent) return new Response('', { status: 503 })
    const call = JSON.parse(text) as Call & { id: unknown }
    this.asked.add(call.method)
    const lie = this.#lies[call.method]
    // A send with a false answer is not forwarded.
    const invented = call.method === 'sendTransaction' ? await lie?.(undefined, call) : undefined
    if (invented !== undefined) return Response.json({ jsonrpc: '2.0', id: call.id, result: invented })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(this.truth_url, { method: 'POST', headers, body: text }).catch(() => undefined)
    if (reply === undefined || reply.status !== 200) return new Response('', { status: 502 })
    const told = (await reply.json()) as { result?: unknown }
    const name = `${call.method} ${JSON.stringify(call.params)}`
    if (lie === undefined) this.#truths.set(name, told.result)
    else call.before = structuredClone(this.#truths.get(name))
    const changed = told.result === undefined ? undefined : await lie?.(structuredClone(told.result), call)
    if (changed !== undefined) this.lied += 1
    return Response.json(changed === undefined ? told : { ...told, result: changed })
  }
}

type Change = (data: Buffer) => void

/** An answer in which `change` was made to the config account's bytes. */
export const bendConfig = (result: unknown, change: Change): unknown => bendAccounts(result, 1, change)
/** The same for the note tree. */
export const bendTree = (result: unknown, change: Change): unknown => bendAccounts(result, 2, change)

/** @param kind first byte of the account */
export function bendAccounts(result: unknown, kind: number, change: Change): unknown {
  for (const account of (result as Accounts).value) {
    const data = account && Buffer.from(account.data[0], 'base64')
    if (!data || data[0] !== kind || data.length !== (BYTES[kind] ?? data.length)) continue
    change(data)
    account!.data[0] = data.toString('base64')
  }
  return result
}

/** Config accounts in an answer with another batch id than the chain's. */
export function bendBatch(result: unknown, batchOf: (last_batch: number) => number): unknown {
  return bendConfig(result, (data) => {
    data.set(u64Le(Math.max(0, batchOf(Number(data.readBigUInt64LE(LAST_BATCH_AT))))), LAST_BATCH_AT)
  })
}

/** Lies that delay: about slots, heights, statuses, blockhashes, sends, fees and accounts of the past. */
export function delayingLies(endpoint: LyingEndpoint, random: Random): Record<string, Lie> {
  const one = (method: string, ...lies: (readonly [share: number, what: string, lie: Lie])[]): Lie => {
    return (result, call) => {
      let roll = random.next()
      for (const [share, what, lie] of lies) {
        roll -= share
        if (roll >= 0) continue
        endpoint.note(`${method}: ${what}`)
        return lie(result, call)
      }
      return undefined
    }
  }
  const signature = () => encodeBase58(random.bytes(64))
  return {
    getEpochInfo: one(
      'getEpochInfo',
      [0.2, 'far ahead', () => ({ absoluteSlot: FAR_SLOTS, blockHeight: FAR_SLOTS })],
      [0.2, 'behind', () => ({ absoluteSlot: 1, blockHeight: 1 })],
    ),
    getMultipleAccounts: one(
      'getMultipleAccounts',
      [0.05, 'a far slot', (result) => ({ ...(result as Accounts), context: { slot: FAR_SLOTS } })],
      [0.05, 'a lower batch', (result) => bendBatch(result, (last) => last - random.between(1, 3))],
      [
        0.05,
        'nothing there',
        (result) => ({ ...(result as Accounts), value: (result as Accounts).value.map(() => null) }),
      ],
      [0.2, 'the past', earlierResult(random)],
    ),
    getLatestBlockhash: one(
      'getLatestBlockhash',
      [0.1, 'invented, lives for ever', () => lifetime(encodeBase58(random.bytes(32)), FAR_SLOTS)],
      [0.1, 'dead', (result) => lifetime((result as { value: { blockhash: string } }).value.blockhash, 1)],
    ),
    getSignatureStatuses: one(
      'getSignatureStatuses',
      [0.15, 'all landed', allLanded],
      [0.1, 'all unknown', (result) => ({ ...(result as object), value: [null] })],
    ),
    sendTransaction: one('sendTransaction', [0.5, 'sent, and dropped', signature]),
    getTransaction: one('getTransaction', [0.1, 'unknown', () => null]),
    getSignaturesForAddress: one('getSignaturesForAddress', [0.1, 'no history', () => []]),
    getRecentPrioritizationFees: one('getRecentPrioritizationFees', [
      0.3,
      'absurd',
      () => [{ slot: 1, prioritizationFee: 10 ** 15 }],
    ]),
    getBalance: one('getBalance', [0.3, 'poor', (result) => ({ ...(result as object), value: 0 })]),
  }
}

/** A random earlier result of an equal call. */
function earlierResult(random: Random): Lie {
  const earlier = new Map<string, unknown[]>()
  return (result, { params }) => {
    const name = JSON.stringify(params[0]) + (params[1] as { commitment: string }).commitment
    const known = earlier.get(name) ?? []
    earlier.set(name, [...known, structuredClone(result)].slice(-REMEMBERED))
    return random.pickIfAny(known)
  }
}

const allLanded: Lie = (result) => {
  const { context, value } = result as { context: { slot: number }; value: unknown[] }
  const status = {
    slot: context.slot,
    confirmations: null,
    err: null,
    status: { Ok: null },
    confirmationStatus: 'finalized',
  }
  return { context, value: value.map(() => status) }
}

const lifetime = (blockhash: string, lastValidBlockHeight: number) => ({
  context: { slot: 1 },
  value: { blockhash, lastValidBlockHeight },
})

type Lies = Record<string, Lie>
type Context = { context: { slot: number } }

/** In a config account (protocol/vault/accounts.ts). */
const FROZEN_AT = 4
const JOURNAL_SEQ_AT = 40
const KINDS_FAR_SLOTS = 1_000_000
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
    answer.context.slot += KINDS_FAR_SLOTS
    return answer
  }
  const getEpochInfo: Lie = (result) => {
    const { absoluteSlot, blockHeight } = result as { absoluteSlot: number; blockHeight: number }
    return {
      ...(result as object),
      absoluteSlot: absoluteSlot + KINDS_FAR_SLOTS,
      blockHeight: blockHeight + KINDS_FAR_SLOTS,
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

/** Transactions in a later slot than theirs, so that a record of them would be false. */
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
