/** Creates an embedded chain on its first start: accounts, mints, the vault program, and an opened vault. */

import { readFileSync } from 'node:fs'
import {
  type Address,
  createKeyPairSignerFromPrivateKeyBytes,
  generateKeyPairSigner,
  type KeyPairSigner,
} from '@solana/kit'
import { toInstruction } from '../../engine/chain/client/build_transaction'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import {
  mintRecordAddress,
  programDataAddress,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
  vaultAddresses,
} from '../../protocol/vault/addresses'
import {
  announceInstruction,
  initializeInstruction,
  registerMintInstruction,
} from '../../protocol/vault/admin'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { Announcement } from '../../tools/program/announcements_of'
import { PROGRAM_BYTES, PROGRAM_DATA_HEADER_BYTES, renounceUpgrades } from '../../tools/program/loader'
import { EXIT_DELAY_S, JTO, USDC } from '../environment'
import { type BankAccount, SYSTEM_PROGRAM } from './bank'
import { enqueueSigned, MINT_BYTES, NATIVE_MINT } from './faucet'
import type { OpenedChain } from './open_embedded_chain'

/** Mints of the demo instruments, at their mainnet addresses. */
const GENESIS_MINTS = [
  { mint: NATIVE_MINT, decimals: 9, faucet: false },
  { mint: USDC, decimals: 6, faucet: true },
  { mint: JTO, decimals: 9, faucet: true },
] as const

const FAUCET_LAMPORTS = 10n ** 18n
const MINT_LAMPORTS = 1_461_600n
/** Lamports of the admin and of the fee payer: 100 SOL each. */
const FUNDING_LAMPORTS = 100_000_000_000n

/**
 * SPL mint: authority option u32 and key (36), supply u64 (8), decimals u8, initialized u8, freeze authority (36).
 * The native mint has no authority: it is wrapped, never minted.
 */
function mintAccount(decimals: number, authority: Uint8Array | undefined): BankAccount {
  const data = new Uint8Array(MINT_BYTES)
  if (authority) {
    data[0] = 1
    data.set(authority, 4)
  }
  data[44] = decimals
  data[45] = 1
  return { lamports: MINT_LAMPORTS, data, owner: encodeBase58(TOKEN_PROGRAM), executable: false }
}

const encode = (text: string): Uint8Array => decodeBase58(text, 32)!

/** The faucet's lamports and the mints; only the faucet may mint. */
export function moneyAccounts(faucet: string): [string, BankAccount][] {
  const wallet = {
    lamports: FAUCET_LAMPORTS,
    data: new Uint8Array(),
    owner: SYSTEM_PROGRAM,
    executable: false,
  }
  const mints = GENESIS_MINTS.map(({ mint, decimals, faucet: minted }): [string, BankAccount] => [
    mint,
    mintAccount(decimals, minted ? encode(faucet) : undefined),
  ])
  return [[faucet, wallet], ...mints]
}

/**
 * A program of the upgradeable loader.
 * @param authority may upgrade the program until genesis renounces the right
 * @param rent rent-exempt lamports of an account of that many bytes
 */
async function programAccounts(
  program: Address,
  elf: Uint8Array,
  authority: Address,
  rent: (bytes: number) => bigint,
): Promise<[string, BankAccount][]> {
  const data_address = programDataAddress(encode(program))
  const program_data = new Uint8Array(PROGRAM_DATA_HEADER_BYTES + elf.length)
  program_data[0] = 3
  program_data[12] = 1
  program_data.set(encode(authority), 13)
  program_data.set(elf, PROGRAM_DATA_HEADER_BYTES)
  const stub = new Uint8Array(PROGRAM_BYTES)
  stub[0] = 2
  stub.set(data_address, 4)
  const held = (data: Uint8Array, executable: boolean): BankAccount => {
    return { lamports: rent(data.length), data, owner: encodeBase58(UPGRADEABLE_LOADER), executable }
  }
  // The program account names its data, so the data must exist first.
  return [
    [encodeBase58(data_address), held(program_data, false)],
    [program, held(stub, true)],
  ]
}

export type GenesisOptions = {
  /** The built vault program, an sBPF ELF. */
  program_path: string
  /** The announcements that an epoch rests on; without them none opens. */
  announced?: readonly Announcement[]
  /** Public key that gets 100 SOL for the venue's fees; default none. */
  fee_payer?: Uint8Array
  /** Seconds an exit request may wait; default seven days. */
  exit_delay_s?: number
}

/**
 * Installs the vault program and opens the vault through real transactions. Completes an interrupted first start; does
 * nothing once the vault is open.
 * @returns the program's address, 32 bytes
 * @throws when a genesis transaction fails
 */
export async function makeGenesis(chain: OpenedChain, options: GenesisOptions): Promise<Uint8Array> {
  const { store } = chain.machine
  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const program = chain.program_id ?? (await installProgram(chain, options.program_path, admin.address))
  if (store.fact('genesis_done')) return program
  await chain.faucet.airdrop(admin.address, FUNDING_LAMPORTS)
  const { config } = vaultAddresses(program)
  const { fee_payer, announced = [] } = options
  if (fee_payer !== undefined) await chain.faucet.airdrop(encodeBase58(fee_payer), FUNDING_LAMPORTS)
  chain.machine.advance()
  const program_data = programDataAddress(program)
  const admin_key = encode(admin.address)
  if (!exists(chain, config)) {
    const opened = initializeInstruction({
      program,
      program_data,
      deployer: admin_key,
      admin: admin_key,
      exit_delay_s: options.exit_delay_s ?? EXIT_DELAY_S,
      genesis_hash: chain.machine.genesis_hash,
    })
    await land(chain, admin, opened)
  }
  for (const { mint } of GENESIS_MINTS) await registerMint(chain, admin, program, encode(mint))
  // Before the first epoch each holds at once.
  for (const one of announced)
    await land(
      chain,
      admin,
      announceInstruction({ program, admin: admin_key, payer: admin_key, action: 'announce', ...one }),
    )
  if (mayUpgrade(chain, program_data)) await land(chain, admin, renounceUpgrades(program_data, admin_key))
  store.setFact('genesis_done', Uint8Array.of(1))
  // Readers ask for finalized state: the vault must be visible to the first request.
  chain.advance(chain.machine.depth.finalized)
  return program
}

async function installProgram(chain: OpenedChain, path: string, authority: Address): Promise<Uint8Array> {
  const { machine } = chain
  const program = (await generateKeyPairSigner()).address
  const elf = new Uint8Array(readFileSync(path))
  const rent = (bytes: number): bigint => machine.bank.svm.minimumBalanceForRentExemption(BigInt(bytes))
  machine.install(await programAccounts(program, elf, authority, rent))
  // A program is callable from the slot after the one that deployed it.
  machine.advance()
  const program_id = encode(program)
  machine.store.setFact('program_id', program_id)
  return program_id
}

async function registerMint(
  chain: OpenedChain,
  admin: KeyPairSigner,
  program: Uint8Array,
  mint: Uint8Array,
): Promise<void> {
  if (exists(chain, mintRecordAddress(program, mint))) return
  const key = encode(admin.address)
  const bounds = { min_deposit: 1n, min_exit: 1n }
  const vault = registerMintInstruction({
    program,
    admin: key,
    payer: key,
    mint,
    token_program: TOKEN_PROGRAM,
    ...bounds,
  })
  await land(chain, admin, vault)
}

function mayUpgrade(chain: OpenedChain, program_data: Uint8Array): boolean {
  return chain.machine.bank.newest(encodeBase58(program_data))?.data[12] === 1
}

function exists(chain: OpenedChain, account: Uint8Array): boolean {
  return chain.machine.bank.newest(encodeBase58(account)) !== undefined
}

async function land(chain: OpenedChain, admin: KeyPairSigner, instruction: VaultInstruction): Promise<void> {
  const { machine } = chain
  const signature = await enqueueSigned(machine, admin, [toInstruction(instruction, [admin])])
  machine.advance()
  const landed = machine.store.transaction(signature)
  if (landed?.error !== 'null')
    throw new Error(`genesis transaction failed: ${landed?.error ?? 'not accepted'}`)
}
