/** An initialized vault with one registered mint, a model of its trees, and its deployer; also one that announced a machine. */
import { readDeployment } from '../../../engine/chain/client/read_vault'
import { venueId } from '../../../protocol/bodies/statements'
import { compareBytes, equalBytes, utf8 } from '../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf } from '../../../protocol/sign'
import {
  EXIT_REQUEST,
  type QueueAccount,
  type RingAccount,
  type TreeAccount,
} from '../../../protocol/vault/accounts'
import {
  exitRequestSeeds,
  findAddress,
  TOKEN_PROGRAM,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import {
  type AnnouncedTopic,
  announceInstruction,
  authorizeRestoreInstruction,
  type InitializeFields,
  initializeInstruction,
  registerMintInstruction,
} from '../../../protocol/vault/admin'
import {
  EPOCH_FORMS,
  type OpenAttestedEpochFields,
  type OpeningFields,
  openAttestedEpochInstructions,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import type { EventOf } from '../../../protocol/vault/events'
import { DEPOSIT_FORMS, depositInstruction } from '../../../protocol/vault/exits'
import { decoded, type VaultInstruction } from '../../../protocol/vault/instruction'
import {
  type PayoutFields,
  payInstruction,
  QUEUE_FORMS,
  type SettleFields,
  settleInstruction,
} from '../../../protocol/vault/settle'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { withRpc } from '../../../tools/program/deploy_program'
import { landTransaction } from '../../../tools/program/land_transaction'
import type { Chain } from './development_chain'
import { type Changes, QuotingMachine } from './quoting_machine'
import {
  type Failed,
  type Landed,
  type MintFields,
  mintBytes,
  testKey,
  tokenAmount,
  tokenBytes,
  VaultChain,
} from './vault_chain'

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

export const GENESIS_HASH = sha256(utf8('genesis'))

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
  readonly authority = this.chain.fund(testKey('epoch authority'))
  readonly #signers = new Map<number, ReturnType<typeof testKey>>()
  readonly trader = this.chain.fund(testKey('trader'))
  readonly mint = bytes32('mint')
  readonly source = bytes32('source')
  readonly vault_token = vaultTokenAddress(this.program, this.mint)
  readonly tree = new MerkleTree()
  readonly spent = new SpentLog()
  /** Nullifiers of every batch, from batch 1. */
  readonly batches: (readonly Uint8Array[])[] = []

  constructor(readonly machine = new QuotingMachine()) {
    landed(this.chain.send(initializeInstruction(initializationOf(this.chain))))
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

  /** Id of the venue in a generation. */
  venueOf(generation: number): Uint8Array {
    const { program, chain } = this
    const parts = { genesis_hash: GENESIS_HASH, program_id: program, config_account: chain.vault.config }
    return venueId({ ...parts, generation })
  }

  signerOf(epoch: number): ReturnType<typeof testKey> {
    const signer = this.#signers.get(epoch) ?? this.chain.fund(testKey(`settlement ${epoch}`))
    this.#signers.set(epoch, signer)
    return signer
  }

  /** The settlement key of the open epoch, before the first one that of the first. */
  get signer(): ReturnType<typeof testKey> {
    return this.signerOf(Math.max(1, this.chain.config().epoch))
  }

  announce(
    topic: AnnouncedTopic,
    value?: Uint8Array,
    action: 'announce' | 'revoke' | 'raise' = 'announce',
  ): void {
    const keys = { program: this.program, admin: this.admin.key, payer: this.chain.payer.key }
    const valued = value === undefined ? {} : { value }
    const act = action === 'revoke' ? { action } : { action, ...valued }
    landed(this.chain.send(announceInstruction({ ...keys, ...topic, ...act })))
  }

  registerPlatform(chain: Chain): Landed | Failed {
    const fields = { ...chain, program: this.program, payer: this.chain.payer.key }
    return this.chain.send(registerPlatformInstructions(fields))
  }

  /** Announces and registers the machine. Before the first epoch all of it holds at once. */
  announceMachine(): void {
    for (const [topic, value] of this.machine.announced(this.authority.key)) this.announce(topic, value)
    landed(this.registerPlatform(this.machine.machine.chain))
    this.#announced = true
  }
  #announced = false

  /** The opening that lands now, with some of its fields replaced before the machine quotes it, and `changes` in the quote. */
  quoted(fields: Partial<OpeningFields> = {}, changes: Changes = {}): OpenAttestedEpochFields {
    const { journal_seq, journal_head, generation, epoch, last_batch } = this.chain.config()
    const { spent_root, leaf_count, root } = this.chain.tree()
    const opening = {
      epoch: epoch + 1,
      boot_nonce: bytes32(`boot ${epoch + 1}`).slice(0, 16),
      compose_hash: this.machine.compose_hash,
      journal_seq,
      journal_head,
      expected_head: journal_head,
      restore: false,
      generation,
      last_batch,
      spent_root,
      cited_leaf_count: leaf_count,
      cited_root: root,
      ...fields,
    }
    const settlement_signer = this.signerOf(epoch + 1).key
    const parties = { program: this.program, settlement_signer, authority_signer: this.authority.key }
    return this.machine.quoted(opening, parties, this.venueOf(opening.generation), changes)
  }

  /** Both instructions of the opening that lands now; the machine is announced before the first one. */
  opening(fields?: Partial<OpeningFields>, changes?: Changes): [VaultInstruction, VaultInstruction] {
    if (!this.#announced) this.announceMachine()
    return openAttestedEpochInstructions(this.quoted(fields, changes))
  }

  openEpoch(fields?: Partial<OpeningFields>): Landed | Failed {
    return this.chain.send(this.opening(fields))
  }

  depositOf(amount: bigint, inner: Uint8Array): Parameters<typeof depositInstruction>[0] {
    const { program, mint, source } = this
    return { program, depositor: this.trader.key, source, mint, token_program: TOKEN_PROGRAM, amount, inner }
  }

  /** Deposits and keeps the model in step; answers the leaf index. */
  deposit(amount: bigint, inner: Uint8Array): number {
    return this.#deposit(this.depositOf(amount, inner))
  }

  /** A deposit in another mint, from a token account of the trader. */
  depositIn(
    mint: Uint8Array,
    source: Uint8Array,
    amount: bigint,
    { token_program = TOKEN_PROGRAM, inner = element('inner') } = {},
  ): number {
    return this.#deposit({ ...this.depositOf(amount, inner), mint, source, token_program })
  }

  #deposit(fields: Parameters<typeof depositInstruction>[0]): number {
    landed(this.chain.send(depositInstruction(fields)))
    const leaf_index = this.tree.leaf_count
    this.tree.append([depositCommitment({ ...fields, leaf_index })])
    return leaf_index
  }

  withdrawal(amount: bigint, destination: Uint8Array, inner = element('refund')): PayoutFields {
    return { mint: this.mint, destination, amount, inner }
  }

  /** Puts the open request that an exit serves on the chain, as if the owner of its note had sent it. */
  putRequest({ mint, destination, amount, inner, nullifier }: PayoutFields): void {
    const { address, bump } = findAddress(exitRequestSeeds(nullifier!), this.program)
    const owners = { commitment: inner, bond_payer: inner, deadline_s: 0, requested_slot: 0 }
    const asked = { nullifier: nullifier!, mint, amount, destination, refund_inner: inner }
    const request = EXIT_REQUEST.encode({ bump, served: false, ...asked, ...owners })
    this.chain.setAccount(address, request, this.program)
  }

  /** The next batch with the right header. */
  batchOf(parts: Partial<SettleFields> = {}): SettleFields {
    const config = this.chain.config()
    const { leaf_count, root } = this.chain.tree()
    return {
      program: this.program,
      settlement_signer: this.signer.key,
      epoch: config.epoch,
      batch: config.last_batch + 1,
      cited_leaf_count: leaf_count,
      cited_root: root,
      journal_seq: config.journal_seq + 1,
      journal_head: bytes32(`head ${config.journal_seq + 1}`),
      nullifiers: [],
      outputs: [],
      payouts: [],
      ...parts,
    }
  }

  /** Sends one batch from the signer, as the venue does: fee payer and settlement signer are one key. */
  send(batch: SettleFields): Landed | Failed {
    return this.chain.send(settleInstruction(batch), this.signer)
  }

  /** Lands a batch and keeps the models in step. */
  settle(parts: Partial<SettleFields>): EventOf<'settled'> & { units: bigint; bytes: number } {
    return this.settled(this.send(this.batchOf(parts)))
  }

  /** Keeps the models in step with a batch that must have landed. */
  settled(result: Landed | Failed): EventOf<'settled'> & { units: bigint; bytes: number } {
    const { events, units, bytes } = landed(result)
    const event = events.find((one) => one.kind === 'settled')
    if (event === undefined) throw new Error('no settled event')
    this.tree.append(event.outputs.map(({ commitment }) => commitment))
    this.spent.append([spentLogLeaf(event.batch, event.nullifiers)])
    this.batches.push(event.nullifiers)
    return { ...event, units, bytes }
  }

  /** A payment of open entries, of all by default, in the mint's own token program. */
  payment(entries: QueueAccount['entries'] = this.chain.queue().entries, refund = false): VaultInstruction {
    const paid = entries.map(({ place, number, mint, destination }) => {
      const { token_program } = this.chain.mintRecord(mint)
      return { place, number, mint, token_program, destination }
    })
    return payInstruction({ program: this.program, refund, entries: paid })
  }

  /** Lands a payment and keeps the model in step; answers its events in order. */
  pay(entries?: QueueAccount['entries'], refund = false): EventOf<'paid'>[] {
    return this.paid(this.chain.send(this.payment(entries, refund)))
  }

  /** Keeps the model in step with a payment that must have landed; answers its events in order. */
  paid(result: Landed | Failed): EventOf<'paid'>[] {
    const paid = landed(result).events.filter((one) => one.kind === 'paid')
    this.tree.append(paid.flatMap((event) => event.refund?.commitment ?? []))
    return paid
  }
}

/** A vault whose first epoch is open, with a deposit of 50,000 unless another amount is named. */
export function runningVault(amount = 50_000n): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  if (amount > 0n) vault.deposit(amount, element('inner'))
  return vault
}

/** The initialization of the chain's program that lands. */
export const initializationOf = (chain: VaultChain): InitializeFields => ({
  program: chain.program,
  deployer: chain.payer.key,
  program_data: chain.programData(),
  admin: testKey('admin').key,
  exit_delay_s: EXIT_DELAY_S,
  genesis_hash: GENESIS_HASH,
})

/** Outputs with memos for ascending commitments. */
export const outputsOf = (commitments: readonly Uint8Array[]): SettleFields['outputs'] =>
  commitments.map((commitment, index) => ({ commitment, memo: bytes32(`memo ${index}`).slice(0, 16) }))

/** True when `(leaf_count, root)` is the note tree's state now or one the ring still holds. */
export function isKnownState(
  state: { leaf_count: number; root: Uint8Array },
  tree: TreeAccount,
  ring: RingAccount,
): boolean {
  const same = (other: { leaf_count: number; root: Uint8Array }): boolean =>
    other.leaf_count === state.leaf_count && equalBytes(other.root, state.root)
  return same(tree) || ring.states.some(same)
}

export const decodeDeposit = (data: Uint8Array) => decoded(DEPOSIT_FORMS.deposit.data, data)
export const decodeAnchor = (data: Uint8Array) => decoded(EPOCH_FORMS.anchor.data, data)
export const decodePay = (data: Uint8Array) => decoded(QUEUE_FORMS.pay.data, data)

/**
 * Resolves with the signature once finalized.
 * @param seeds of all signers; the first one pays
 * @throws Error with the chain's reason; ChainUnavailable
 */
export async function administerVault(
  rpc_urls: readonly string[],
  seeds: readonly [Uint8Array, ...Uint8Array[]],
  instruction: VaultInstruction,
  priority_fee_lamports: bigint,
): Promise<string> {
  return withRpc(rpc_urls, (rpc) =>
    landTransaction(rpc, { seeds, instructions: [instruction], priority_fee_lamports }),
  )
}

/** Resolves once it is finalized, with the seconds until it is effective: a quarter of the exit delay. */
export async function announceRestore(chain: OpenedChain): Promise<number> {
  const { admin_seed, url } = chain
  const fields = { program: chain.program_id!, admin: publicKeyOf(admin_seed) }
  const instruction = authorizeRestoreInstruction({ ...fields, action: 'announce' })
  await administerVault([url], [admin_seed], instruction, 0n)
  const { config } = await readDeployment([url], fields.program)
  return Math.ceil(config.exit_delay_s / 4)
}

export class AttestedVault {
  readonly vault: OpenVault
  readonly chain: OpenVault['chain']
  readonly authority: OpenVault['authority']

  constructor(...parts: ConstructorParameters<typeof QuotingMachine>) {
    this.vault = new OpenVault(new QuotingMachine(...parts))
    this.chain = this.vault.chain
    this.authority = this.vault.authority
    this.vault.announceMachine()
  }

  announce(...change: Parameters<OpenVault['announce']>): void {
    this.vault.announce(...change)
  }

  register(chain: Chain): Landed | Failed {
    return this.vault.registerPlatform(chain)
  }

  together(before: VaultInstruction, last: VaultInstruction): Landed | Failed {
    return this.chain.send([before, last])
  }

  /** The fields of the opening that lands now, with some parts replaced. */
  fields(changes: Changes = {}): OpenAttestedEpochFields {
    return this.vault.quoted({}, changes)
  }

  opening(changes?: Changes): [VaultInstruction, VaultInstruction] {
    return openAttestedEpochInstructions(this.fields(changes))
  }

  open(changes?: Changes): Landed | Failed {
    return this.chain.send(this.opening(changes))
  }

  /** Simulated, so that one vault serves many cases. */
  outcome(changes?: Changes): string {
    return this.chain.outcome(this.opening(changes))
  }
}
