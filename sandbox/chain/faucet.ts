/** Mints the embedded chain's test money, serves the RPC methods that request it, and builds the instructions that fund wallets. */

import {
  address,
  type Blockhash,
  createKeyPairSignerFromPrivateKeyBytes,
  type Instruction,
  type KeyPairSigner,
} from '@solana/kit'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  toInstruction,
} from '../../engine/chain/client/build_transaction'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, u64Le, utf8 } from '../../protocol/bytes'
import { associatedAccount, SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import { createAssociatedInstruction, type VaultInstruction } from '../../protocol/vault/instruction'
import type { Machine } from './machine'
import { decimalsOf } from './methods'
import { addressAt, configAt, invalidParams, type Method } from './serve'
import { decodeTransaction } from './transaction_meta'

type Account = VaultInstruction['accounts'][number]
const read = (address: Uint8Array): Account => ({ address, writable: false, signer: false })
const write = (address: Uint8Array): Account => ({ address, writable: true, signer: false })
const signs = (account: Account): Account => ({ ...account, signer: true })

export const associatedTokenAddress = (owner: string, mint: string): string =>
  encodeBase58(associatedAccount(decodeBase58(owner, 32)!, decodeBase58(mint, 32)!))

/** Size of an SPL Token mint account. */
export const MINT_BYTES = 82

/** An account of the SPL Token program, made a mint with `decimals` and no freeze authority. */
export function createMintInstructions(
  payer: Uint8Array,
  mint: Uint8Array,
  rent_lamports: bigint,
  decimals: number,
): VaultInstruction[] {
  const space = u64Le(MINT_BYTES)
  const create = {
    program: SYSTEM_PROGRAM,
    accounts: [signs(write(payer)), signs(write(mint))],
    data: concatBytes(new Uint8Array(4), u64Le(rent_lamports), space, TOKEN_PROGRAM),
  }
  // InitializeMint2: decimals, authority, no freeze authority.
  const data = concatBytes(Uint8Array.of(20, decimals), payer, Uint8Array.of(0))
  return [create, { program: TOKEN_PROGRAM, accounts: [write(mint)], data }]
}

export function transferLamports(from: Uint8Array, to: Uint8Array, lamports: bigint): VaultInstruction {
  return {
    program: SYSTEM_PROGRAM,
    accounts: [signs(write(from)), write(to)],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(lamports)),
  }
}

/** Lamports into a token account of the native mint. */
export function wrapLamports(from: Uint8Array, account: Uint8Array, lamports: bigint): VaultInstruction[] {
  const sync_native = { program: TOKEN_PROGRAM, accounts: [write(account)], data: Uint8Array.of(17) }
  return [transferLamports(from, account, lamports), sync_native]
}

export function mintToChecked(
  mint: Uint8Array,
  account: Uint8Array,
  authority: Uint8Array,
  amount: bigint,
  decimals: number,
): VaultInstruction {
  return {
    program: TOKEN_PROGRAM,
    accounts: [write(mint), write(account), signs(read(authority))],
    data: concatBytes(Uint8Array.of(14), u64Le(amount), Uint8Array.of(decimals)),
  }
}

export const NATIVE_MINT = 'So11111111111111111111111111111111111111112'
const MEMO_PROGRAM = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
/** Lamports of one airdrop request: a thousand SOL, ample for tests and demos. */
const AIRDROP_MAX = 1_000_000_000_000n
const bytesOf = (text: string): Uint8Array => decodeBase58(text, 32)!

/** Signs the instructions over the newest blockhash and queues them; returns the signature. */
export async function enqueueSigned(
  machine: Machine,
  payer: KeyPairSigner,
  instructions: Instruction[],
): Promise<string> {
  const { blockhash } = machine.blockhashes.at(machine.tip)
  const lastValidBlockHeight = BigInt(machine.lastValidHeight(blockhash)!)
  const lifetime = { blockhash: blockhash as Blockhash, lastValidBlockHeight }
  const limits = { compute_units: COMPUTE_UNITS_MAX, priority_fee_lamports: 0n }
  const { wire, signature } = await buildTransaction({ payer, instructions, lifetime, ...limits })
  machine.enqueue(decodeTransaction(wire))
  return encodeBase58(signature)
}

/** Holds the key that owns the chain's lamports and may mint the demo tokens. */
export class Faucet {
  #count = 0
  readonly #key: Uint8Array

  constructor(
    readonly machine: Machine,
    readonly signer: KeyPairSigner,
  ) {
    this.#key = bytesOf(signer.address)
  }

  static async open(machine: Machine, seed: Uint8Array): Promise<Faucet> {
    return new Faucet(machine, await createKeyPairSignerFromPrivateKeyBytes(seed))
  }

  /** Queues a transfer of lamports; returns its signature. */
  async airdrop(to: string, lamports: bigint): Promise<string> {
    return this.#send([transferLamports(this.#key, bytesOf(to), lamports)])
  }

  /** Queues tokens for `owner`'s associated token account, created if absent; lamports are wrapped for the native mint. */
  async mintTo(mint: string, owner: string, amount: bigint): Promise<string> {
    const decimals = decimalsOf(this.machine.bank.newest(mint))
    if (decimals === undefined) throw new RangeError('mint is not on this chain')
    const account = bytesOf(associatedTokenAddress(owner, mint))
    const create = createAssociatedInstruction(this.#key, bytesOf(owner), bytesOf(mint))
    const paid =
      mint === NATIVE_MINT
        ? wrapLamports(this.#key, account, amount)
        : [mintToChecked(bytesOf(mint), account, this.#key, amount, decimals)]
    return this.#send([create, ...paid])
  }

  /** A memo with a counter distinguishes equal requests of one slot. */
  #send(paid: VaultInstruction[]): Promise<string> {
    const { machine, signer } = this
    const memo = { programAddress: MEMO_PROGRAM, data: utf8(`faucet ${machine.tip}.${this.#count++}`) }
    return enqueueSigned(machine, signer, [...paid.map((one) => toInstruction(one, [signer])), memo])
  }
}

/** `requestAirdrop` as on a test validator; `tacit_mintTo` exists on the embedded chain only. */
export function faucetMethods(faucet: Faucet): Record<string, Method> {
  const requestAirdrop: Method = (_, params) => {
    const lamports = params[1]
    if (typeof lamports !== 'number' || !Number.isSafeInteger(lamports) || lamports < 1)
      throw invalidParams('lamports')
    if (BigInt(lamports) > AIRDROP_MAX) throw invalidParams('airdrop too large')
    return faucet.airdrop(addressAt(params, 0), BigInt(lamports))
  }

  /** `tacit_mintTo({mint, owner, amount})`: addresses in base58, amount as a decimal string; returns the signature. */
  const mintTo: Method = (machine, params) => {
    const { mint, owner, amount } = configAt(machine, params, 0)
    const text = String(amount)
    if (!/^[1-9][0-9]{0,19}$/.test(text) || BigInt(text) >= 1n << 64n) throw invalidParams('amount')
    return faucet
      .mintTo(addressAt([mint], 0), addressAt([owner], 0), BigInt(text))
      .catch((error: unknown) => {
        throw error instanceof RangeError ? invalidParams(error.message) : error
      })
  }
  return { requestAirdrop, tacit_mintTo: mintTo }
}
