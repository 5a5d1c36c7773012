/** A chain in process with the tested vault program on it, for the program's tests: raw keys in, decoded state out. */

import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  AccountRole,
  appendTransactionMessageInstructions,
  compileTransaction,
  createTransactionMessage,
  getTransactionEncoder,
  lamports,
  pipe,
  type SignatureBytes,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayer,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  type Transaction,
} from '@solana/kit'
import { Clock, FailedTransactionMetadata, LiteSVM, type TransactionMetadata } from 'litesvm'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { encodeBase58 } from '../../../protocol/base58'
import { u64Le } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf } from '../../../protocol/sign'
import {
  type ConfigAccount,
  decodeConfig,
  decodeMintRecord,
  decodeQueue,
  decodeRing,
  decodeTree,
  type MintRecord,
  type QueueAccount,
  type RingAccount,
  type TreeAccount,
} from '../../../protocol/vault/accounts'
import { mintRecordAddress, UPGRADEABLE_LOADER, vaultAddresses } from '../../../protocol/vault/addresses'
import { vaultError } from '../../../protocol/vault/errors'
import { decodeEvent, type VaultEvent } from '../../../protocol/vault/events'
import type { VaultInstruction } from '../../../protocol/vault/instruction'

/** Of a v1 transaction. */
const TRANSACTION_BYTES_MAX = 4_096

export const VAULT_SO = readFileSync(join(import.meta.dir, '../../../program/vault.so'))

/** A key pair of the tests: deterministic, from a name. */
type TestKey = { name: string; key: Uint8Array; secret: KeyObject }

/** PKCS #8 frame of a raw Ed25519 seed (RFC 8410). */
const PKCS8_FRAME = Buffer.from('302e020100300506032b657004220420', 'hex')

export function testKey(name: string): TestKey {
  const seed = sha256(new TextEncoder().encode(`vault test ${name}`))
  const der = Buffer.concat([PKCS8_FRAME, seed])
  return {
    name,
    key: publicKeyOf(seed),
    secret: createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }),
  }
}

export type Landed = {
  ok: true
  events: VaultEvent[]
  /** Data of every inner instruction. */
  inner: Uint8Array[]
  units: bigint
  /** Bytes of the whole transaction on the wire. */
  bytes: number
}
export type Failed = { ok: false; error: string; logs: string[] }

/** Vault errors by name, other custom codes as `custom N`, the rest as the runtime words it. */
function describe(failure: FailedTransactionMetadata): string {
  const text = failure.toString()
  const code = /Custom\((\d+)\)/.exec(text)?.[1]
  if (code === undefined) return /err: ([^,]+(?:\([^)]*\))?)/.exec(text)?.[1] ?? text
  return vaultError(Number(code))?.name ?? `custom ${code}`
}

export class VaultChain {
  readonly svm = new LiteSVM().withTransactionHistory(0n)
  readonly program = testKey('program').key
  readonly vault = vaultAddresses(this.program)
  readonly payer = testKey('payer')
  readonly #keys = new Map<string, TestKey>()
  /** Instructions that go before the one to send, in its transaction. */
  before: readonly VaultInstruction[] = []

  constructor() {
    this.svm.addProgram(addressOf(this.program), VAULT_SO)
    this.fund(this.payer)
    this.setTime(1_000, 1_800_000_000)
    this.setUpgradeAuthority(this.payer.key)
  }

  /** Address of the program's data under the upgradeable loader: behind the tag of the program account. */
  programData(): Uint8Array {
    return this.account(this.program)!.data.slice(4, 36)
  }

  /** Program data: tag u32, slot u64, authority option u8, authority (32), ELF. */
  setUpgradeAuthority(authority: Uint8Array | undefined): void {
    const { data } = this.account(this.programData())!
    data[12] = authority === undefined ? 0 : 1
    data.set(authority ?? new Uint8Array(32), 13)
    this.setAccount(this.programData(), data, UPGRADEABLE_LOADER)
  }

  /** Funds a key and lets it sign every transaction that names it as a signer. */
  fund(key: TestKey, sol = 100n): TestKey {
    this.#keys.set(encodeBase58(key.key), key)
    this.svm.airdrop(addressOf(key.key), lamports(sol * 1_000_000_000n))
    return key
  }

  setTime(slot: number, unix_s: number): void {
    this.svm.setClock(new Clock(BigInt(slot), 0n, 0n, 0n, BigInt(unix_s)))
  }

  account(key: Uint8Array): { data: Uint8Array; lamports: bigint; owner: string } | undefined {
    const account = this.svm.getAccount(addressOf(key))
    if (!account.exists) return undefined
    return {
      data: Uint8Array.from(account.data),
      lamports: account.lamports,
      owner: account.programAddress,
    }
  }

  setAccount(key: Uint8Array, data: Uint8Array, owner: Uint8Array, balance = 10_000_000_000n): void {
    this.svm.setAccount({
      address: addressOf(key),
      data,
      executable: false,
      lamports: lamports(balance),
      programAddress: addressOf(owner),
      space: BigInt(data.length),
    })
  }

  #decoded<T>(key: Uint8Array, decode: (data: Uint8Array) => T | undefined): T {
    const decoded = decode(this.account(key)?.data ?? new Uint8Array())
    if (decoded === undefined) throw new Error(`no account of this layout at ${encodeBase58(key)}`)
    return decoded
  }

  config(): ConfigAccount {
    return this.#decoded(this.vault.config, decodeConfig)
  }

  tree(): TreeAccount {
    return this.#decoded(this.vault.tree, decodeTree)
  }

  ring(): RingAccount {
    return this.#decoded(this.vault.ring, decodeRing)
  }

  queue(): QueueAccount {
    return this.#decoded(this.vault.queue, decodeQueue)
  }

  mintRecord(mint: Uint8Array): MintRecord {
    return this.#decoded(mintRecordAddress(this.program, mint), decodeMintRecord)
  }

  /** Signs with every known key the instructions name as a signer: one v1 transaction. */
  signed(
    sent: VaultInstruction | VaultInstruction[],
    fee_payer = this.payer,
    loaded_bytes = 2_000_000,
  ): Transaction {
    const instructions = [...this.before, sent].flat()
    const message = pipe(
      createTransactionMessage({ version: 1 }),
      (m) => setTransactionMessageFeePayer(addressOf(fee_payer.key), m),
      (m) => this.svm.setTransactionMessageLifetimeUsingLatestBlockhash(m),
      (m) => setTransactionMessageComputeUnitLimit(1_400_000, m),
      (m) => setTransactionMessageLoadedAccountsDataSizeLimit(loaded_bytes, m),
      (m) => appendTransactionMessageInstructions(instructions.map(asInstruction), m),
    )
    const transaction = compileTransaction(message)
    const signatures = Object.fromEntries(
      Object.keys(transaction.signatures).map((signer) => {
        const key = this.#keys.get(signer)
        if (key === undefined) throw new Error(`no key to sign for ${signer}`)
        return [
          signer,
          new Uint8Array(sign(null, Uint8Array.from(transaction.messageBytes), key.secret)) as SignatureBytes,
        ]
      }),
    )
    return { ...transaction, signatures }
  }

  send(
    sent: VaultInstruction | VaultInstruction[],
    fee_payer = this.payer,
    loaded_bytes?: number,
  ): Landed | Failed {
    return this.land(this.signed(sent, fee_payer, loaded_bytes))
  }

  /** @throws Error when it lands although no node would forward its bytes */
  land(signed: Transaction): Landed | Failed {
    const bytes = getTransactionEncoder().encode(signed).length
    const result = this.svm.sendTransaction(signed)
    this.svm.expireBlockhash()
    if (result instanceof FailedTransactionMetadata)
      return { ok: false, error: describe(result), logs: result.meta().logs() }
    if (bytes > TRANSACTION_BYTES_MAX) throw new Error(`a transaction of ${bytes} bytes landed`)
    const inner = innerData(result)
    const events = inner.flatMap((data) => decodeEvent(data) ?? [])
    return { ok: true, events, inner, units: result.computeUnitsConsumed(), bytes }
  }

  /** Simulates the instructions: `landed`, or the error's name. */
  outcome(sent: VaultInstruction | VaultInstruction[], fee_payer = this.payer): string {
    const result = this.svm.simulateTransaction(this.signed(sent, fee_payer))
    return result instanceof FailedTransactionMetadata ? describe(result) : 'landed'
  }
}

const asInstruction = ({ program, accounts, data }: VaultInstruction) => ({
  programAddress: addressOf(program),
  accounts: accounts.map((one) => ({ address: addressOf(one.address), role: roleOf(one) })),
  data,
})

function roleOf({ signer, writable }: { signer: boolean; writable: boolean }): AccountRole {
  if (signer) return writable ? AccountRole.WRITABLE_SIGNER : AccountRole.READONLY_SIGNER
  return writable ? AccountRole.WRITABLE : AccountRole.READONLY
}

function innerData(result: TransactionMetadata): Uint8Array[] {
  return result
    .innerInstructions()
    .flat()
    .map((inner) => inner.instruction().data())
}

export const DECIMALS = 6

/** One TLV extension of Token-2022: type and value. */
type Extension = { type: number; value: Uint8Array }

function extended(base: Uint8Array, account_type: number, extensions: readonly Extension[]): Uint8Array {
  const size = extensions.reduce((sum, { value }) => sum + 4 + value.length, 166)
  const bytes = new Uint8Array(size)
  bytes.set(base)
  bytes[165] = account_type
  const view = new DataView(bytes.buffer)
  let at = 166
  for (const { type, value } of extensions) {
    view.setUint16(at, type, true)
    view.setUint16(at + 2, value.length, true)
    bytes.set(value, at + 4)
    at += 4 + value.length
  }
  return bytes
}

export type MintFields = {
  freeze_authority?: Uint8Array
  initialized?: boolean
  extensions?: readonly Extension[]
}

/** A mint with supply `2^60`. */
export function mintBytes(fields: MintFields = {}): Uint8Array {
  const bytes = new Uint8Array(82)
  bytes.set(u64Le(1n << 60n), 36)
  bytes[44] = DECIMALS
  bytes[45] = fields.initialized === false ? 0 : 1
  if (fields.freeze_authority !== undefined) {
    bytes[46] = 1
    bytes.set(fields.freeze_authority, 50)
  }
  return fields.extensions === undefined ? bytes : extended(bytes, 1, fields.extensions)
}

export type TokenFields = {
  mint: Uint8Array
  owner: Uint8Array
  amount?: bigint
  state?: 'uninitialized' | 'initialized' | 'frozen'
  extensions?: readonly Extension[]
}

const STATES = { uninitialized: 0, initialized: 1, frozen: 2 } as const

export function tokenBytes({
  mint,
  owner,
  amount = 0n,
  state = 'initialized',
  extensions,
}: TokenFields): Uint8Array {
  const bytes = new Uint8Array(165)
  bytes.set(mint)
  bytes.set(owner, 32)
  bytes.set(u64Le(amount), 64)
  bytes[108] = STATES[state]
  return extensions === undefined ? bytes : extended(bytes, 2, extensions)
}

export const tokenAmount = (data: Uint8Array): bigint =>
  new DataView(data.buffer, data.byteOffset, data.byteLength).getBigUint64(64, true)
