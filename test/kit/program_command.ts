/** Runs `bun run program` as a process against an embedded chain, with key files as operators have them. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Address, lamports } from '@solana/kit'
import { addressOf } from '../../engine/chain/client/chain_client'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { OpenedChain } from '../../sandbox/chain/open_embedded_chain'
import { bySignedMultisig, FORWARDER, FORWARDER_SO, MULTISIG } from '../program/forwarder'
import { clientsOf } from './chain/chain_folder'
import { type Said, said } from './said'
import { administerVault } from './vault/open_vault'

const MAIN = join(import.meta.dir, '../../tools/program/main.ts')

type Proposal = {
  instructions: {
    program_id: string
    accounts: { name: string; pubkey: string; is_signer: boolean; is_writable: boolean }[]
    data_base64: string
  }[]
}

export class OperatorDesk {
  readonly dir = mkdtempSync(join(tmpdir(), 'tacit-operator-'))
  readonly seeds = new Map<string, Uint8Array>()

  constructor(readonly chain: OpenedChain) {
    chain.machine.bank.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  }

  path = (name: string): string => join(this.dir, name)

  /** Writes a key file; returns its address. */
  key(name: string, seed: Uint8Array = crypto.getRandomValues(new Uint8Array(32))): string {
    this.seeds.set(name, seed)
    writeFileSync(this.path(name), toHex(seed), { mode: 0o600 })
    return encodeBase58(publicKeyOf(seed))
  }

  async fund(address: string): Promise<void> {
    await clientsOf(this.chain)
      .rpc.requestAirdrop(address as Address, lamports(50_000_000_000n))
      .send()
  }

  /** @param stdin the input of the terminal, by default one where nothing is typed */
  start(args: readonly string[], stdin: Blob | 'pipe' = 'pipe') {
    const command = [process.execPath, MAIN, ...args]
    return Bun.spawn(command, { cwd: this.dir, stdin, stdout: 'pipe', stderr: 'pipe' })
  }
  /** @param typed the input of the terminal */
  run(args: readonly string[], typed = ''): Promise<Said> {
    return said(this.start(args, new Blob([typed])))
  }

  /** Executes the instructions of a proposal's file as the multisig, in a transaction that `payer` pays. */
  async execute(file: string, payer: string): Promise<void> {
    const { instructions } = JSON.parse(readFileSync(this.path(file), 'utf8')) as Proposal
    for (const { program_id, accounts, data_base64 } of instructions) {
      const inner: VaultInstruction = {
        program: decodeBase58(program_id, 32)!,
        accounts: accounts.map(({ pubkey, is_signer, is_writable }) => {
          return { address: decodeBase58(pubkey, 32)!, signer: is_signer, writable: is_writable }
        }),
        data: new Uint8Array(Buffer.from(data_base64, 'base64')),
      }
      await administerVault([this.chain.url], [this.seeds.get(payer)!], bySignedMultisig(inner), 0n)
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true })
  }
}

export const MULTISIG_ADDRESS = encodeBase58(MULTISIG.address)
