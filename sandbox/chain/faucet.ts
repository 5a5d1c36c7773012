/** Mints the embedded chain's test money and serves the RPC methods that request it. */

import {
  type Address,
  address,
  appendTransactionMessageInstructions,
  type Blockhash,
  createKeyPairSignerFromPrivateKeyBytes,
  createTransactionMessage,
  getProgramDerivedAddress,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { decodeBase58 } from '../../protocol/base58'
import { concatBytes, u64Le, utf8 } from '../../protocol/bytes'
import { mintOf, TOKEN_PROGRAM } from './account_methods'
import { SYSTEM_PROGRAM } from './bank'
import type { Machine } from './machine'
import { addressAt, configAt, invalidParams, type Method } from './rpc'
import { decodeTransaction } from './transaction_meta'

export const NATIVE_MINT = 'So11111111111111111111111111111111111111112'
const ATA_PROGRAM = address('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')
const MEMO_PROGRAM = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
/** AccountRole of kit: readonly 0, writable 1, readonly signer 2, writable signer 3. */
const [READ, WRITE, SIGN_WRITE] = [0, 1, 3] as const
/** Lamports of one airdrop request: a thousand SOL, ample for tests and demos. */
const AIRDROP_MAX = 1_000_000_000_000n

/** Holds the key that owns the chain's lamports and may mint the demo tokens. */
export class Faucet {
  #count = 0

  constructor(
    readonly machine: Machine,
    readonly signer: KeyPairSigner,
  ) {}

  static async open(machine: Machine, seed: Uint8Array): Promise<Faucet> {
    return new Faucet(machine, await createKeyPairSignerFromPrivateKeyBytes(seed))
  }

  /** Queues a transfer of lamports; returns its signature. */
  async airdrop(to: string, lamports: bigint): Promise<string> {
    return this.#send([this.#transfer(to, lamports)])
  }

  /** Queues tokens for `owner`'s associated token account, created if absent; lamports are wrapped for the native mint. */
  async mintTo(mint: string, owner: string, amount: bigint): Promise<string> {
    const decimals = mintOf(this.machine.bank.newest(mint))?.decimals
    if (decimals === undefined) throw new RangeError('mint is not on this chain')
    const account = await associatedTokenAddress(owner, mint)
    const create: Instruction = {
      programAddress: ATA_PROGRAM,
      accounts: [
        { address: this.signer.address, role: SIGN_WRITE },
        { address: account, role: WRITE },
        { address: address(owner), role: READ },
        { address: address(mint), role: READ },
        { address: address(SYSTEM_PROGRAM), role: READ },
        { address: address(TOKEN_PROGRAM), role: READ },
      ],
      data: Uint8Array.of(1),
    }
    if (mint === NATIVE_MINT)
      return this.#send([create, this.#transfer(account, amount), syncNative(account)])
    return this.#send([create, this.#mintToChecked(mint, account, amount, decimals)])
  }

  #transfer(to: string, lamports: bigint): Instruction {
    return {
      programAddress: address(SYSTEM_PROGRAM),
      accounts: [
        { address: this.signer.address, role: SIGN_WRITE },
        { address: address(to), role: WRITE },
      ],
      data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(lamports)),
    }
  }

  #mintToChecked(mint: string, account: Address, amount: bigint, decimals: number): Instruction {
    return {
      programAddress: address(TOKEN_PROGRAM),
      accounts: [
        { address: address(mint), role: WRITE },
        { address: account, role: WRITE },
        { address: this.signer.address, role: SIGN_WRITE },
      ],
      data: concatBytes(Uint8Array.of(14), u64Le(amount), Uint8Array.of(decimals)),
    }
  }

  /** A memo with a counter distinguishes equal requests of one slot. */
  async #send(instructions: Instruction[]): Promise<string> {
    const { machine, signer } = this
    const memo: Instruction = {
      programAddress: MEMO_PROGRAM,
      data: utf8(`faucet ${machine.tip}.${this.#count++}`),
    }
    const { blockhash } = machine.blockhashes.at(machine.tip)
    const lifetime = {
      blockhash: blockhash as Blockhash,
      lastValidBlockHeight: BigInt(machine.lastValidHeight(blockhash)!),
    }
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (m) => setTransactionMessageFeePayerSigner(signer, m),
      (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
      (m) => appendTransactionMessageInstructions([...instructions, memo], m),
    )
    const signed = await signTransactionMessageWithSigners(message)
    const decoded = decodeTransaction(new Uint8Array(getTransactionEncoder().encode(signed)))
    machine.enqueue(decoded)
    return decoded.signature!
  }
}

function syncNative(account: Address): Instruction {
  return {
    programAddress: address(TOKEN_PROGRAM),
    accounts: [{ address: account, role: WRITE }],
    data: Uint8Array.of(17),
  }
}

/** Address of the associated token account (SPL Associated Token Account: seeds owner, token program, mint). */
export async function associatedTokenAddress(owner: string, mint: string): Promise<Address> {
  const seeds = [owner, TOKEN_PROGRAM, mint].map((one) => decodeBase58(one, 32)!)
  const [derived] = await getProgramDerivedAddress({ programAddress: ATA_PROGRAM, seeds })
  return derived
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
