/** One instruction as the judge sees it: flags, accounts and data, and the fuzzer's own record of the chain's content. */
import { compareBytes, equalBytes, isZero, toHex } from '../../../../protocol/bytes'
import { findAddress, SYSTEM_PROGRAM, type VaultAddresses } from '../../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import type { Named, RawAccount, RawChain } from '../raw_chain'

export class Fields {
  #at = 1

  constructor(readonly data: Uint8Array) {}

  bytes(length: number): Uint8Array {
    must(this.#at + length <= this.data.length, 'the data ends early')
    this.#at += length
    return this.data.slice(this.#at - length, this.#at)
  }

  u8(): number {
    return this.bytes(1)[0]!
  }

  u64(): bigint {
    return u64At(this.bytes(8), 0)
  }

  word(): Uint8Array {
    return this.bytes(32)
  }

  words(count: number): Uint8Array[] {
    return Array.from({ length: count }, () => this.word())
  }

  end(): void {
    must(this.#at === this.data.length, 'bytes behind the data')
  }
}

const viewOf = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.length)

export const u64At = (data: Uint8Array, at: number): bigint => viewOf(data).getBigUint64(at, true)
export const u32At = (data: Uint8Array, at: number): number => viewOf(data).getUint32(at, true)
export const u16At = (data: Uint8Array, at: number): number => viewOf(data).getUint16(at, true)
export const wordAt = (data: Uint8Array, at: number): Uint8Array => data.slice(at, at + 32)

const U64_MAX = (1n << 64n) - 1n

export function setU64(data: Uint8Array, at: number, value: bigint): void {
  must(value >= 0n && value <= U64_MAX, 'a number leaves its range')
  viewOf(data).setBigUint64(at, value, true)
}

export const setU32 = (data: Uint8Array, at: number, value: number): void =>
  viewOf(data).setUint32(at, value, true)
export const setU16 = (data: Uint8Array, at: number, value: number): void =>
  viewOf(data).setUint16(at, value, true)

const copyOf = ({ owner, data, lamports }: RawAccount): RawAccount => ({
  owner: owner.slice(),
  data: data.slice(),
  lamports,
})

export class Ledger {
  readonly #chain: RawChain
  readonly #known = new Map<string, RawAccount>()

  constructor(chain: RawChain) {
    this.#chain = chain
  }

  /** Read from the chain at first sight, from then on changed only by judged transactions and `set`. */
  get(address: Uint8Array): Readonly<RawAccount> {
    const key = toHex(address)
    let account = this.#known.get(key)
    if (account === undefined) {
      account = this.onChain(address)
      this.#known.set(key, account)
    }
    return account
  }

  /** The chain's content now; an absent account is one of the system program without lamports. */
  onChain(address: Uint8Array): RawAccount {
    return this.#chain.account(address) ?? { owner: SYSTEM_PROGRAM, data: new Uint8Array(), lamports: 0n }
  }

  /** Puts an account on the chain by force. */
  set(address: Uint8Array, account: RawAccount): void {
    this.#chain.setAccount(address, account)
    this.#known.set(toHex(address), copyOf(account))
  }

  draft(): Draft {
    return new Draft(this)
  }

  /** Takes over the changes of a draft. */
  keep(draft: Draft): void {
    for (const [key, account] of draft.changed) this.#known.set(key, account)
  }

  /** Puts accounts back on the chain as this ledger knows them. */
  restore(addresses: readonly Uint8Array[]): void {
    for (const address of addresses) this.#chain.setAccount(address, copyOf(this.get(address)))
  }
}

/** A ledger with the changes of one transaction on top. */
export class Draft {
  readonly changed = new Map<string, RawAccount>()
  readonly #base: Ledger

  constructor(base: Ledger) {
    this.#base = base
  }

  /** An account to read or to change in place. */
  at(address: Uint8Array): RawAccount {
    const key = toHex(address)
    let account = this.changed.get(key)
    if (account === undefined) {
      account = copyOf(this.#base.get(address))
      this.changed.set(key, account)
    }
    return account
  }
}

/** A reason for which the vault must reject. */
export class Illegal extends Error {}

export function must(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new Illegal(rule)
}

/** A leaf the vault appended; a deposit or refund states its parts. */
export type Appended = {
  commitment: Uint8Array
  made_of?: { mint: Uint8Array; amount: bigint; inner: Uint8Array }
}

/** Effects of a transaction on one vault, for the world to follow. */
export type Report = {
  vault: Uint8Array
  appended: Appended[]
  /** Nullifiers of each batch. */
  batches: Uint8Array[][]
  mints: Uint8Array[]
}

export type Clock = { slot: number; unix_s: number }

export type Call = {
  vault: VaultAddresses
  accounts: readonly Named[]
  data: Uint8Array
  draft: Draft
  clock: Clock
  rentOf: (size: number) => bigint
  report: Report
  /** Called by another program, not by the transaction itself. */
  inner: boolean
  /** Place in the transaction, and the instructions before it. */
  index: number
  before: VaultInstruction | undefined
}

export type Placed = Named & { state: RawAccount }

type PlacedTuple<N extends number, T extends Placed[] = []> = T['length'] extends N
  ? T
  : PlacedTuple<N, [...T, Placed]>

/** Exactly `count` accounts. */
export function accountsOf<const N extends number>(call: Call, count: N): PlacedTuple<N> {
  must(call.accounts.length === count, 'another number of accounts')
  return call.accounts.map((_, place) => accountAt(call, place)) as PlacedTuple<N>
}

export function accountAt(call: Call, place: number): Placed {
  const named = call.accounts[place]
  must(named !== undefined, 'an account is missing')
  return { ...named, state: call.draft.at(named.address) }
}

export const same = equalBytes

export function mustBeProgram(call: Call, account: Placed): void {
  must(same(account.address, call.vault.program), 'the program account is another')
}

export function mustBeSystem(account: Placed): void {
  must(same(account.address, SYSTEM_PROGRAM), 'the system program is another')
}

export const mustSign = (account: Named): void => must(account.signer, 'a signature is missing')
export const mustBeWritable = (account: Named): void => must(account.writable, 'an account is read-only')

export const VERSION = 2

/** An account of the vault: owner, address, size, kind and version. */
export function ownAccount(
  call: Call,
  account: Placed,
  address: Uint8Array,
  kind: number,
  size: number,
): Uint8Array {
  const { owner, data } = account.state
  must(same(owner, call.vault.program), 'an account of another owner')
  must(same(account.address, address), 'an account at another address')
  must(data.length === size && data[0] === kind && data[1] === VERSION, 'an account of another kind')
  return data
}

const MODULUS = Buffer.from('30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001', 'hex')

const isReduced = (value: Uint8Array): boolean => compareBytes(value, MODULUS) < 0

export function mustBeElement(value: Uint8Array): void {
  must(isReduced(value) && !isZero(value), 'a value is no field element')
}

/** Creates an account of the vault: the payer fills it up to rent plus `bond`. */
export function createAccount(
  call: Call,
  payer: Placed,
  account: Placed,
  made: { seeds: readonly Uint8Array[]; size: number; owner: Uint8Array; bond: bigint },
): { data: Uint8Array; bump: number } {
  mustSign(payer)
  mustBeWritable(payer)
  mustBeWritable(account)
  const { address, bump } = findAddress(made.seeds, call.vault.program)
  must(same(account.address, address), 'a new account at another address')
  must(account.state.data.length === 0 && same(account.state.owner, SYSTEM_PROGRAM), 'the account exists')
  const wanted = call.rentOf(made.size) + made.bond
  const missing = wanted > account.state.lamports ? wanted - account.state.lamports : 0n
  must(payer.state.lamports >= missing, 'the payer is poor')
  payer.state.lamports -= missing
  account.state.lamports += missing
  account.state.owner = made.owner
  account.state.data = new Uint8Array(made.size)
  return { data: account.state.data, bump }
}

/** Closes an account of the vault: every lamport goes to `receiver`. */
export function closeAccount(account: Placed, receiver: Placed): void {
  mustBeWritable(account)
  mustBeWritable(receiver)
  must(!same(account.address, receiver.address), 'an account closed into itself')
  receiver.state.lamports += account.state.lamports
  account.state.lamports = 0n
  account.state.data = new Uint8Array()
  account.state.owner = SYSTEM_PROGRAM
}
