/** Runs the wallet's commands as processes in one temporary folder, on a chain without a venue: the test itself settles. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { type ChainAccess, openChainAccess, payerKey, toInstruction } from '../../client/chain/chain_access'
import { deposit } from '../../client/chain/deposit'
import { readVaultEvents } from '../../client/chain/read_history'
import { programBytes, readVaultState } from '../../client/chain/read_vault'
import { sendInstructions } from '../../client/chain/send_instructions'
import { formatAmount } from '../../client/session/units'
import type { Wallet, WalletNote } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { compareBytes } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { registerPlatformInstructions } from '../../protocol/vault/epochs'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { type SettleFields, settleInstruction } from '../../protocol/vault/settle'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { simulatedMachine } from '../../sandbox/enclave/simulated_machine'
import { USDC } from '../../sandbox/environment'
import { callRpc, chainFolder } from '../kit/chain/chain_folder'
import { type Said, said } from '../kit/said'

const MACHINE = simulatedMachine(new Uint8Array(32).fill(0xab))
const CLI = join(import.meta.dir, '../../client/cli/tacit.ts')
/** Verbs that are none of `tacit wallet`. */
const TOP = ['exit', 'faucet', 'deposit', 'archive', 'audit-chain', 'watch-escapes', 'help', '--help']
const PROGRAM = join(import.meta.dir, '../../program/vault.so')
export const EXIT_DELAY_S = 600

/** Base units of USDC as `tacit` takes them. */
export const usdc = (units: number): string => formatAmount(BigInt(units), 6)

export class CliSite {
  private constructor(
    readonly folder: { dir: string; remove(): void },
    readonly chain: OpenedChain,
    readonly program_id: string,
    readonly signer: SettlingSigner,
  ) {}

  static async open(): Promise<CliSite> {
    const folder = chainFolder()
    const chain = await openEmbeddedChain({ data_dir: join(folder.dir, 'chain'), slot_ms: 10 })
    const seed = crypto.getRandomValues(new Uint8Array(32))
    const genesis = {
      program_path: PROGRAM,
      fee_payer: publicKeyOf(seed),
      announced: MACHINE.announced,
      exit_delay_s: EXIT_DELAY_S,
    }
    const program_id = encodeBase58(await makeGenesis(chain, genesis))
    return new CliSite(folder, chain, program_id, await SettlingSigner.open(chain, seed, program_id))
  }

  path(name: string): string {
    return join(this.folder.dir, name)
  }
  /** `--rpc URL --program ADDRESS`. */
  get where(): string[] {
    return ['--rpc', this.chain.url, '--program', this.program_id]
  }

  /** Starts a verb of `tacit`, or of `tacit wallet`. */
  start(...args: string[]) {
    const verb = TOP.includes(args[0] ?? '') ? args : ['wallet', ...args]
    const options = { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' } as const
    return Bun.spawn([process.execPath, CLI, ...verb], { cwd: this.folder.dir, ...options })
  }
  run(...args: string[]): Promise<Said> {
    return said(this.start(...args))
  }

  /** A Solana key file; its address. */
  payer(name: string): string {
    const seed = crypto.getRandomValues(new Uint8Array(32))
    const key_file = JSON.stringify([...seed, ...publicKeyOf(seed)])
    writeFileSync(this.path(name), key_file, { mode: 0o600 })
    return encodeBase58(publicKeyOf(seed))
  }
  /** Deposits of a wallet's key 0, each finalized, from a separate payer. */
  async deposit(wallet: Wallet, ...amounts: bigint[]): Promise<WalletNote[]> {
    const chain = await openChainAccess(this.chain.url, crypto.getRandomValues(new Uint8Array(32)))
    await this.fund(chain.payer.address, USDC, String(amounts.reduce((sum, amount) => sum + amount)))
    const notes: WalletNote[] = []
    for (const amount of amounts) {
      const terms = { program_id: this.program_id, mint: USDC, amount, key_index: 0 }
      notes.push((await deposit(chain, wallet, terms)).note)
    }
    return notes
  }
  async fund(owner: string, mint: string, amount: string): Promise<void> {
    await callRpc(this.chain, 'requestAirdrop', [owner, 5_000_000_000])
    await callRpc(this.chain, 'tacit_mintTo', [{ mint, owner, amount }])
    this.chain.advance(2)
  }

  async close(): Promise<void> {
    await this.chain.close()
    this.folder.remove()
  }
}

export const notesIn = (out: string): string[] => out.match(/^[0-9a-f]{64}/gm) ?? []

type BatchParts = Partial<Pick<SettleFields, 'nullifiers' | 'outputs' | 'payouts'>>

/** The settlement key: opens the epoch and lands batches that a test makes. */
class SettlingSigner {
  private constructor(
    private readonly site: OpenedChain,
    private readonly chain: ChainAccess,
    private readonly program_id: string,
  ) {}

  /** Opens the vault's first epoch. @param seed of a key that has SOL, which becomes the settlement key */
  static async open(site: OpenedChain, seed: Uint8Array, program_id: string): Promise<SettlingSigner> {
    const signer = new SettlingSigner(site, await openChainAccess(site.url, seed), program_id)
    const { program, settlement_signer } = signer.keys()
    await signer.send(
      registerPlatformInstructions({ ...MACHINE.platform, program, payer: settlement_signer }),
    )
    const { config, tree } = await signer.vault()
    const { generation, epoch, last_batch, journal_seq, journal_head } = config
    await signer.send(
      MACHINE.opening(
        {
          ...signer.keys(),
          epoch: epoch + 1,
          generation,
          last_batch,
          journal_seq,
          journal_head,
          restore: false,
          expected_head: journal_head,
          boot_nonce: new Uint8Array(16).fill(1),
          spent_root: tree.spent_root,
          cited_leaf_count: tree.leaf_count,
          cited_root: tree.root,
        },
        config.venue,
      ),
    )
    return signer
  }

  /** Lands the next batch; it is final when this returns. @returns the numbers of its payouts */
  async settle({ nullifiers = [], outputs = [], payouts = [] }: BatchParts): Promise<number[]> {
    const { config, tree } = await this.vault()
    const batch = config.last_batch + 1
    await this.send([
      settleInstruction({
        ...this.keys(),
        epoch: config.epoch,
        batch,
        cited_leaf_count: tree.leaf_count,
        cited_root: tree.root,
        journal_seq: config.journal_seq + 1,
        journal_head: new Uint8Array(32).fill(batch),
        nullifiers: nullifiers.toSorted(compareBytes),
        outputs,
        payouts,
      }),
    ])
    for (const event of await readVaultEvents(this.chain, this.program_id))
      if (event.kind === 'settled' && event.batch === batch) return event.payouts.map(({ number }) => number)
    throw new Error('the batch is not in the history')
  }

  private vault() {
    return readVaultState(this.chain, this.program_id, 'confirmed')
  }
  private keys() {
    return { program: programBytes(this.program_id), settlement_signer: payerKey(this.chain) }
  }
  private async send(instructions: VaultInstruction[]): Promise<void> {
    const authority = await createKeyPairSignerFromPrivateKeyBytes(MACHINE.authority_seed)
    const signers = [this.chain.payer, authority]
    await sendInstructions(
      this.chain,
      instructions.map((one) => toInstruction(one, signers)),
      'confirmed',
    )
    this.site.advance(10)
  }
}

/** Reads a stream until it has said so. */
export async function until(stream: ReadableStream<Uint8Array>, wanted: RegExp): Promise<void> {
  const reader = stream.pipeThrough(new TextDecoderStream() as never).getReader()
  for (let text = ''; !wanted.test(text); ) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`it ended with ${text}`)
    text += value
  }
}
