/** An initialized vault with one registered mint and a model of both trees beside it, for the program's tests. */
import { compareBytes, utf8 } from '../../../protocol/bytes'
import { MerkleTree } from '../../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../../protocol/notes/notes'
import { SpentTree } from '../../../protocol/notes/spent_tree'
import { sha256 } from '../../../protocol/sha256'
import { TOKEN_PROGRAM, vaultTokenAddress } from '../../../protocol/vault/addresses'
import { initializeInstruction, registerMintInstruction } from '../../../protocol/vault/admin'
import { depositInstruction } from '../../../protocol/vault/deposit'
import { openEpochInstruction } from '../../../protocol/vault/epochs'
import type { SettledEvent } from '../../../protocol/vault/events'
import { type PayoutFields, type SettleFields, settleInstruction } from '../../../protocol/vault/settle'
import { type MintFields, mintBytes, tokenAmount, tokenBytes } from './tokens'
import { type Failed, type Landed, testKey, VaultChain } from './vault_chain'

export const EXIT_DELAY_S = 1_000
export const MIN_DEPOSIT = 1_000n
export const MIN_EXIT = 500n

/** A field element from a name: 32 bytes below the modulus. */
export function element(name: string): Uint8Array {
  const bytes = sha256(utf8(name))
  bytes[0]! &= 0x1f
  return bytes
}

export const elements = (name: string, count: number): Uint8Array[] =>
  Array.from({ length: count }, (_, index) => element(`${name} ${index}`)).sort(compareBytes)

export const bytes32 = (name: string): Uint8Array => sha256(utf8(name))

/** Fails the test with the program's words when a transaction that must land did not. */
export function landed(result: Landed | Failed): Landed {
  if (!result.ok) throw new Error(`${result.error}\n${result.logs.join('\n')}`)
  return result
}

/** Number or name of the error, `landed` when there was none. */
export const errorOf = (result: Landed | Failed): string => (result.ok ? 'landed' : result.error)

export class OpenVault {
  readonly chain = new VaultChain()
  readonly program = this.chain.program
  readonly admin = this.chain.fund(testKey('admin'))
  readonly signer = this.chain.fund(testKey('signer'))
  readonly trader = this.chain.fund(testKey('trader'))
  readonly mint = bytes32('mint')
  readonly source = bytes32('source')
  readonly vault_token = vaultTokenAddress(this.program, this.mint)
  readonly tree = new MerkleTree()
  readonly spent = new SpentTree()

  constructor() {
    const { program, chain } = this
    landed(
      chain.send(
        initializeInstruction({
          program,
          deployer: chain.payer.key,
          program_data: chain.programData(),
          admin: this.admin.key,
          settlement_signer: this.signer.key,
          exit_delay_s: EXIT_DELAY_S,
        }),
      ),
    )
    landed(this.registerMint(this.mint))
    this.setToken(this.source, { owner: this.trader.key, amount: 1_000_000_000n })
  }

  /** Puts a mint on the chain and registers it. */
  registerMint(mint: Uint8Array, fields: MintFields = {}, token_program = TOKEN_PROGRAM): Landed | Failed {
    this.chain.setAccount(mint, mintBytes(fields), token_program)
    return this.chain.send(
      registerMintInstruction({
        program: this.program,
        admin: this.admin.key,
        payer: this.chain.payer.key,
        mint,
        token_program,
        min_deposit: MIN_DEPOSIT,
        min_exit: MIN_EXIT,
      }),
    )
  }

  setToken(
    key: Uint8Array,
    fields: Omit<Parameters<typeof tokenBytes>[0], 'mint'> & { mint?: Uint8Array },
    token_program = TOKEN_PROGRAM,
  ): void {
    this.chain.setAccount(key, tokenBytes({ mint: this.mint, ...fields }), token_program)
  }

  balance(key: Uint8Array): bigint {
    return tokenAmount(this.chain.account(key)!.data)
  }

  openEpoch(epoch = this.chain.config().epoch + 1): Landed | Failed {
    const { journal_seq, journal_head, generation } = this.chain.config()
    return this.chain.send(
      openEpochInstruction({
        program: this.program,
        settlement_signer: this.signer.key,
        epoch,
        boot_nonce: bytes32(`boot ${epoch}`).slice(0, 16),
        compose_hash: bytes32('compose'),
        journal_seq,
        journal_head,
        restore: false,
        generation,
      }),
    )
  }

  depositOf(amount: bigint, inner: Uint8Array): Parameters<typeof depositInstruction>[0] {
    const { program, mint, source } = this
    return { program, depositor: this.trader.key, source, mint, token_program: TOKEN_PROGRAM, amount, inner }
  }

  /** Deposits and keeps the model in step; answers the leaf index. */
  deposit(amount: bigint, inner: Uint8Array): number {
    landed(this.chain.send(depositInstruction(this.depositOf(amount, inner))))
    const leaf_index = this.tree.leaf_count
    this.tree.append([depositCommitment({ mint: this.mint, amount, inner, leaf_index })])
    return leaf_index
  }

  withdrawal(amount: bigint, destination: Uint8Array, inner = element('refund')): PayoutFields {
    return { kind: 'withdrawal', mint: this.mint, token_program: TOKEN_PROGRAM, destination, amount, inner }
  }

  /** The next batch with the right header; the spent root is that of the model after `nullifiers`. */
  batchOf(parts: Partial<SettleFields> = {}): SettleFields {
    const config = this.chain.config()
    const { leaf_count, root } = this.chain.tree()
    const nullifiers = parts.nullifiers ?? []
    const spent = nullifiers.length === 0 ? config.spent_root : this.#spentRootAfter(nullifiers)
    return {
      program: this.program,
      settlement_signer: this.signer.key,
      epoch: config.epoch,
      batch: config.last_batch + 1,
      cited_leaf_count: leaf_count,
      cited_root: root,
      spent_root: spent,
      journal_seq: config.journal_seq + 1,
      journal_head: bytes32(`head ${config.journal_seq + 1}`),
      nullifiers,
      outputs: [],
      payouts: [],
      ...parts,
    }
  }

  #spentRootAfter(nullifiers: readonly Uint8Array[]): Uint8Array {
    this.spent.insert(nullifiers)
    return this.spent.root()
  }

  /** Sends one batch from the signer, as the venue does: fee payer and settlement signer are one key. */
  send(batch: SettleFields): Landed | Failed {
    return this.chain.send(settleInstruction(batch), this.signer)
  }

  /** Lands a batch and keeps the note model in step. */
  settle(parts: Partial<SettleFields>): SettledEvent & { units: bigint; bytes: number } {
    const { events, units, bytes } = landed(this.send(this.batchOf(parts)))
    const event = events.find((one) => one.kind === 'settled')
    if (event === undefined) throw new Error('no settled event')
    this.tree.append(event.outputs.map(({ commitment }) => commitment))
    this.tree.append(event.payouts.flatMap(({ refund }) => refund?.commitment ?? []))
    return { ...event, units, bytes }
  }
}

/** Outputs with memos for ascending commitments. */
export const outputsOf = (commitments: readonly Uint8Array[]): SettleFields['outputs'] =>
  commitments.map((commitment, index) => ({ commitment, memo: bytes32(`memo ${index}`).slice(0, 16) }))
