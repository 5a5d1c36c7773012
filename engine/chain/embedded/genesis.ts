/** First start of an embedded chain: puts the vault program on it and opens the vault through real transactions. */
import { readFileSync } from 'node:fs'
import {
  type Address,
  address,
  type Blockhash,
  createKeyPairSignerFromPrivateKeyBytes,
  generateKeyPairSigner,
  type Instruction,
  type KeyPairSigner,
} from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { mintRecordAddress, vaultAddresses } from '../../../protocol/vault/addresses'
import { initializeInstruction } from '../../../protocol/vault/initialize'
import { TOKEN_PROGRAM } from '../../../protocol/vault/programs'
import { registerMintInstruction } from '../../../protocol/vault/register_mint'
import { buildTransaction, COMPUTE_UNITS_MAX } from '../build_transaction'
import { toInstruction } from '../vault_instruction'
import { decodeTransaction } from './execute_transaction'
import { GENESIS_MINTS, LOADER_V3, programAccounts, programDataAddress } from './genesis_accounts'
import type { OpenedChain } from './open_embedded_chain'

const FUNDING_LAMPORTS = 100_000_000_000n
const EXIT_DELAY_S = 7 * 86_400

export type GenesisOptions = {
  /** The built vault program, an sBPF ELF. */
  program_path: string
  /** 32-byte public key that alone may settle; gets 100 SOL for fees. */
  settlement_signer: Uint8Array
  /** Seconds an exit request may wait; default seven days. */
  exit_delay_s?: number
}

/**
 * Does nothing on a chain whose vault is open; a first start that was interrupted is completed. Answers the program's
 * address, 32 bytes.
 * @throws when a genesis transaction fails
 */
export async function makeGenesis(chain: OpenedChain, options: GenesisOptions): Promise<Uint8Array> {
  const { store } = chain.machine
  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const program = chain.program_id ?? (await installProgram(chain, options.program_path, admin.address))
  if (store.fact('genesis_done')) return program
  await chain.faucet.airdrop(admin.address, FUNDING_LAMPORTS)
  await chain.faucet.airdrop(encodeBase58(options.settlement_signer), FUNDING_LAMPORTS)
  chain.machine.advance()
  const program_data = decodeBase58(await programDataAddress(program), 32)!
  if (!exists(chain, vaultAddresses(program).config)) {
    const opened = initializeInstruction({
      program,
      program_data,
      deployer: decodeBase58(admin.address, 32)!,
      admin: decodeBase58(admin.address, 32)!,
      settlement_signer: options.settlement_signer,
      exit_delay_s: options.exit_delay_s ?? EXIT_DELAY_S,
    })
    await land(chain, admin, toInstruction(opened, [admin]))
  }
  for (const { mint } of GENESIS_MINTS) await registerMint(chain, admin, program, decodeBase58(mint, 32)!)
  if (mayUpgrade(chain, program_data))
    await land(chain, admin, renounceUpgrades(admin, encodeBase58(program_data)))
  store.setFact('genesis_done', Uint8Array.of(1))
  // Readers ask for finalized state: the vault is there from the first request on.
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
  const program_id = decodeBase58(program, 32)!
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
  const key = decodeBase58(admin.address, 32)!
  const bounds = { min_deposit: 1n, min_exit: 1n }
  const vault = registerMintInstruction({
    program,
    admin: key,
    payer: key,
    mint,
    token_program: TOKEN_PROGRAM,
    ...bounds,
  })
  await land(chain, admin, toInstruction(vault, [admin]))
}

/** Loader v3 SetAuthority (4) without a new authority: the program can never change again. */
function renounceUpgrades(admin: KeyPairSigner, program_data: string): Instruction {
  const accounts = [
    { address: address(program_data), role: 1 },
    { address: admin.address, role: 2, signer: admin },
  ]
  return { programAddress: LOADER_V3, accounts, data: Uint8Array.of(4, 0, 0, 0) }
}

function mayUpgrade(chain: OpenedChain, program_data: Uint8Array): boolean {
  return chain.machine.bank.newest(encodeBase58(program_data))?.data[12] === 1
}

function exists(chain: OpenedChain, account: Uint8Array): boolean {
  return chain.machine.bank.newest(encodeBase58(account)) !== undefined
}

async function land(chain: OpenedChain, admin: KeyPairSigner, instruction: Instruction): Promise<void> {
  const { machine } = chain
  const { blockhash } = machine.blockhashes.at(machine.tip)
  const lastValidBlockHeight = BigInt(machine.lastValidHeight(blockhash)!)
  const { wire, signature } = await buildTransaction({
    payer: admin,
    instructions: [instruction],
    lifetime: { blockhash: blockhash as Blockhash, lastValidBlockHeight },
    compute_units: COMPUTE_UNITS_MAX,
    priority_fee_lamports: 0n,
  })
  machine.enqueue(decodeTransaction(wire))
  machine.advance()
  const landed = machine.store.transaction(signature)
  if (landed?.error !== 'null')
    throw new Error(`genesis transaction failed: ${landed?.error ?? 'not accepted'}`)
}
