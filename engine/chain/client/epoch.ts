/** Opens epochs, anchors the journal head, stores commits on chain, and reads the chain's verdict on them. */
import { venueId } from '../../../protocol/bodies/statements'
import { equalBytes } from '../../../protocol/bytes'
import { type ConfigAccount, decodeAnnouncement } from '../../../protocol/vault/accounts'
import { announcementAddress } from '../../../protocol/vault/admin'
import {
  anchorInstruction,
  openAttestedEpochInstructions,
  platformAddress,
  platformOf,
  quotedFields,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import type { VaultErrorName } from '../../../protocol/vault/errors'
import { LIMITS } from '../../limits'
import {
  type BatchDecision,
  type ChainPort,
  type ClosePosition,
  EpochTaken,
  type OutboxPort,
} from '../../ports'
import type { SignedTransaction } from './build_transaction'
import type { ChainClient } from './chain_client'
import { supervise } from './health'
import {
  broadcast,
  COMPUTE_UNITS,
  type Landing,
  landInstruction,
  signVaultInstruction,
  Terms,
} from './land_instruction'
import {
  readAgreedVault,
  readProgramAccount,
  readVaults,
  VaultAbsent,
  type VaultSnapshot,
  VaultUnreadable,
} from './read_vault'
import type { Answer } from './rpc_pool'
import type { Level } from './slot_view'
import { ChainProgramError } from './transaction_status'

/** Compute units of one opening, with precompile and replay of RTMR3 (`program/README.md`). */
const OPENING_UNITS = 250_000

/** A batch, a deposit or a position landed after the vault was read: the next reading states it. */
const OUTDATED: readonly VaultErrorName[] = ['batch_out_of_sequence', 'unknown_state', 'position_outdated']

type OpeningArgs = Parameters<ChainPort['openEpoch']>[0]
type Journaled = Parameters<ChainPort['openEpoch']>[1]

/**
 * Opens the next epoch on chain, which fences every earlier instance of this venue. Resolves once it has the level;
 * immediately if the chain already has this epoch with this boot nonce.
 * @throws EpochTaken, ChainProgramError, ChainUnavailable
 */
export async function openEpoch(client: ChainClient, args: OpeningArgs, record: Journaled): Promise<Landing> {
  const { monotonicMs } = client.view.options
  const { level = 'finalized' } = args
  let newest: Landing = { slot: 0, signature: new Uint8Array(64), confirmed_ms: 0 }
  let quoted: Quoted | undefined
  let registration: Registration | undefined
  const prepare = async () => {
    const { config, tree, ring, slot } = await readAgreedVault(client, level)
    if (config.epoch === args.epoch && equalBytes(config.boot_nonce, args.boot_nonce)) {
      newest = { ...newest, slot: config.epoch_slot || slot, confirmed_ms: monotonicMs() }
      return undefined
    }
    if (config.epoch !== args.epoch - 1) throw new EpochTaken(`the chain is at epoch ${config.epoch}`)
    // The opening expects this position, so none that another instance stores meanwhile is passed over.
    const { journal_seq: seq, journal_head: expected_head } = config
    if (!(await args.passes({ seq, head: expected_head })))
      throw new EpochTaken('the chain has a position that this journal lacks')
    // The own root: the epoch opens only where the batches on chain are those of this journal.
    const spent_root = await args.spentRoot(config.last_batch)
    if (spent_root === undefined) throw new EpochTaken('the chain has batches that this journal lacks')
    // A state of the ring stays known while deposits land.
    const kept = ring.states.findLast(({ leaf_count }) => leaf_count >= config.settled_leaf_count)
    const cited = kept ?? tree
    const generation = config.generation + (args.restore ? 1 : 0)
    quoted ??= await quoteFor(client, { ...args, generation, genesis_hash: config.genesis_hash })
    registration ??= new Registration(client, quoted)
    await registration.begin()
    return openAttestedEpochInstructions({
      program: client.vault.program,
      settlement_signer: client.signer_key,
      authority_signer: client.authority_key,
      ...quoted.fields,
      epoch: args.epoch,
      boot_nonce: args.boot_nonce,
      compose_hash: args.compose_hash,
      journal_seq: args.seq,
      journal_head: args.head,
      expected_head,
      restore: args.restore,
      generation,
      last_batch: config.last_batch,
      spent_root,
      cited_leaf_count: cited.leaf_count,
      cited_root: cited.root,
    })
  }
  const landing = await landInstruction(client, {
    prepare,
    level,
    retried: (name) => {
      if (name !== 'wrong_owner') return OUTDATED.includes(name) ? level : undefined
      // A record is missing: that of the platform, which may still come, or one that the admin did not announce.
      if (registration?.level === 'finalized') return undefined
      return registration?.level === 'confirmed' ? 'finalized' : 'confirmed'
    },
    compute_units: OPENING_UNITS,
    record: async (signature, transaction) => {
      newest = { ...newest, signature }
      await record(signature, transaction)
    },
  }).catch(asEpochTaken)
  return landing ?? newest
}

/** Until the epoch is final: an opening that a fork takes back is made again. Ends when another instance holds the epoch. */
export async function keepEpoch(client: ChainClient, args: OpeningArgs, record: Journaled): Promise<void> {
  const { rpc, view } = client
  const seen: Record<Level, number[]> = { confirmed: [], finalized: [] }
  const isShown = async (level: Level, epoch: number) => {
    const answers = await readVaults(client, level, seen[level])
    return answers.filter(({ value: { config } }) => config.epoch >= epoch).length >= rpc.quorum
  }
  await supervise(client, async () => {
    if (await isShown('finalized', args.epoch)) return false
    if (!(await isShown('confirmed', args.epoch))) {
      try {
        await openEpoch(client, args, record)
      } catch (error) {
        // The next look shows whose it is: the bytes sent first may have landed.
        if (!(error instanceof EpochTaken)) throw error
      }
    }
    await rpc.sleep(view.slotMs())
    return true
  })
}

type Quoted = {
  fields: ReturnType<typeof quotedFields>
  /** DER: the platform's certificate, its authority, the root. */
  pck_chain: readonly Uint8Array[]
}

/** The quote of this boot, as the opening takes it. */
async function quoteFor(
  client: ChainClient,
  bound: { epoch: number; boot_nonce: Uint8Array; generation: number; genesis_hash: Uint8Array },
): Promise<Quoted> {
  const { epoch, boot_nonce, generation, genesis_hash } = bound
  const { program: program_id, config: config_account } = client.vault
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  const { parsed, event_log } = await client.quoteEpoch({ venue, epoch, boot_nonce })
  return { fields: quotedFields(parsed, event_log), pck_chain: parsed.pck_chain }
}

/**
 * The record of the machine's certificate, which anyone may register. An opening is sent behind the registration without waiting
 * for it, and rejected (`wrong_owner`) where it overtakes it or a fork takes the registration back; it is made again then.
 */
class Registration {
  #landing: Promise<unknown> | undefined
  /** At which the record was shown when the opening was made; undefined for a registration that was only signed. */
  level: 'confirmed' | 'finalized' | undefined

  constructor(
    private readonly client: ChainClient,
    private readonly quoted: Quoted,
  ) {}

  /** Resolves once the record is shown or a registration is signed; again, once that is confirmed. @throws its rejection */
  async begin(): Promise<void> {
    await this.#landing
    const levels = ['finalized', 'confirmed'] as const
    const shown = await Promise.all(levels.map((level) => this.#isShown(level)))
    this.level = levels[shown.indexOf(true)]
    if (this.level !== undefined) return
    const { client, quoted } = this
    const register = {
      ...platformOf(quoted.pck_chain),
      program: client.vault.program,
      payer: client.payer_key,
    }
    const begun = Promise.withResolvers<void>()
    const prepare = async () =>
      (await this.#isShown('confirmed')) ? undefined : registerPlatformInstructions(register)
    const record = async () => begun.resolve()
    this.#landing = landInstruction(client, { prepare, level: 'confirmed', record }).catch(
      async (error: unknown) => {
        // Another sender was first.
        if (!(error instanceof ChainProgramError) || !(await this.#isShown('confirmed'))) throw error
      },
    )
    // A rejection is thrown by the next call: the opening lacks the record then.
    this.#landing.catch(() => undefined).finally(begun.resolve)
    await begun.promise
  }

  async #isShown(level: 'confirmed' | 'finalized'): Promise<boolean> {
    const { client, quoted } = this
    const address = platformAddress(client.vault.program, quoted.fields.pck_key)
    return (await readProgramAccount(client, address, level)) !== undefined
  }
}

/** @throws VaultAbsent until the vault exists and its admin has announced this venue's epoch authority; then VaultUnreadable */
export async function requireAnnounced(client: ChainClient): Promise<void> {
  await readAgreedVault(client)
  const topic = { list: 'epoch_authority' } as const
  const account = await readProgramAccount(client, announcementAddress(client.vault.program, topic))
  if (account === undefined) throw new VaultAbsent('the vault has announced no epoch authority')
  if (decodeAnnouncement(account) === undefined)
    throw new VaultUnreadable('an announcement has an unknown layout')
}

/** Another epoch or position landed meanwhile; while it is not finalized yet, only the program's error reports it. */
const OVERTAKEN: readonly string[] = ['epoch_out_of_sequence', 'journal_regressed', 'journal_conflict']

function asEpochTaken(error: unknown): never {
  const name = error instanceof ChainProgramError ? error.failure.name : undefined
  if (name === undefined || !OVERTAKEN.includes(name)) throw error
  throw new EpochTaken('the chain is already past this epoch')
}

/**
 * Stores `own` on chain unless the position there covers record `seq` already. Resolves once one that does is finalized, or when
 * it is no longer needed.
 * @throws ChainProgramError, ChainUnavailable
 */
export async function anchor(
  client: ChainClient,
  epoch: number,
  seq: number,
  own: { seq: number; head: Uint8Array },
  isNeeded?: () => boolean,
): Promise<void> {
  const prepare = async () => {
    if ((await readPosition(client, own)) >= seq) return undefined
    const { program } = client.vault
    const limits = { not_after_slot: 0, not_after_s: 0 }
    const position = { epoch, journal_seq: own.seq, journal_head: own.head, ...limits }
    return anchorInstruction({ program, settlement_signer: client.signer_key, ...position })
  }
  const needed = isNeeded && { isNeeded }
  await landInstruction(client, { prepare, deadline_ms: LIMITS.anchor_landing_max_ms, ...needed })
}

/** The finalized journal position that a quorum of providers shows; one that is not of the own journal does not count. */
async function readPosition(client: ChainClient, own: { seq: number; head: Uint8Array }): Promise<number> {
  const positions = (await readVaults(client, 'finalized')).map(({ value: { config } }) => {
    const is_own =
      config.journal_seq < own.seq ||
      (config.journal_seq === own.seq && equalBytes(config.journal_head, own.head))
    return is_own ? config.journal_seq : 0
  })
  return client.rpc.reached(positions) ?? 0
}

/** Shares of the commit time after which the next variant is sent; each pays twice the fee of the one before. */
const VARIANTS_AT = [0, 1 / 4, 1 / 2] as const

/** One close on its way to the chain. */
type Commit = {
  readonly close: ClosePosition
  readonly not_after_slot: number
  /** Chain second (unix). */
  readonly not_after_s: number
  readonly start_ms: number
  readonly commit_ms: number
  /** Variants signed so far, and the newest. */
  variants: number
  newest: SignedTransaction | undefined
  sent_slot: number
}

export class Commits {
  readonly #seen: number[] = []
  /**
   * The newest decided commit, the record of its match, and by provider the slot of its answer by then, until a quorum shows
   * both as final.
   */
  #guarded: { commit: Commit; match_seq: number; seen: number[] } | undefined
  /** Whether a quorum shows the guarded commit as taken back. */
  #lost = false
  #newest: Commit | undefined
  /** The one that the chain has not decided yet. */
  #open: Commit | undefined

  constructor(
    readonly client: ChainClient,
    readonly epoch: number,
    readonly head: OutboxPort['head'],
  ) {
    client.health.watch('commit_undecided', () => {
      const { start_ms = Number.POSITIVE_INFINITY, commit_ms = 0 } = this.#open ?? {}
      return client.view.options.monotonicMs() - start_ms > LIMITS.commit_delay * commit_ms
    })
  }

  /** Sends the commit and resolves with the decision; undefined when the client closes first. */
  async decide(close: ClosePosition, commit_ms: number): Promise<BatchDecision | undefined> {
    const { client } = this
    const { slot_ms, unix_ms } = client.view.now()
    const commit: Commit = {
      close,
      not_after_slot: close.slot + Math.ceil(commit_ms / slot_ms),
      not_after_s: Math.floor(unix_ms / 1_000) + LIMITS.commit_clock_s,
      start_ms: client.view.options.monotonicMs(),
      commit_ms,
      variants: 0,
      newest: undefined,
      sent_slot: Number.NEGATIVE_INFINITY,
    }
    this.#open = commit
    let decision: BatchDecision | undefined
    await supervise(client, async () => {
      const { slot } = client.view.now()
      // A provider that takes no transactions may still show the decision.
      const sent = this.#send(commit).then(
        () => undefined,
        (error: unknown) => error,
      )
      decision = this.#judge(commit, await readVaults(client, 'confirmed', this.#seen))
      if (decision !== undefined) return false
      const failed = await sent
      if (failed !== undefined) throw failed
      await client.view.after(slot)
      return true
    })
    this.#open = undefined
    if (decision?.outcome === 'committed') this.#newest = commit
    return decision
  }

  /** Record `match_seq` holds the match of the batch decided last: the commit is watched from here on. */
  matched(match_seq: number): void {
    if (this.#newest === undefined) return
    this.#guarded = { commit: this.#newest, match_seq, seen: [...this.#seen] }
    this.#lost = false
  }

  /** Reports `commit_reorged` while a quorum shows neither the decided commit nor a position past its match. */
  guard(confirmed: readonly Answer<VaultSnapshot>[], finalized: readonly Answer<VaultSnapshot>[]): void {
    const { client } = this
    const guarded = this.#guarded
    if (guarded === undefined) return
    const holds = ({ config }: VaultSnapshot) =>
      config.commit_seq >= guarded.commit.close.seq || config.journal_seq >= guarded.match_seq
    // An answer that was under way when the commit was decided shows an older vault.
    const fresh = client.view.fresh('confirmed', confirmed, guarded.seen)
    const shown = client.rpc.majority(fresh, (value) => String(holds(value)))
    if (shown === undefined) return
    this.#lost = !holds(shown[0]!.value)
    client.health.set('commit_reorged', this.#lost)
    if (this.#lost) return
    if (finalized.filter(({ value }) => holds(value)).length >= client.rpc.quorum) this.#guarded = undefined
  }

  /**
   * Sends a commit that was taken back again, while it may land, then an anchor, and resolves when that is final, or a quorum
   * shows the commit or its match again.
   * @param isDisowned whether another instance holds the vault
   */
  async mend(isDisowned: () => boolean): Promise<void> {
    const guarded = this.#guarded
    if (!this.#lost || guarded === undefined) return
    const { client } = this
    const { commit, match_seq } = guarded
    const { slot } = client.view.now()
    const isNeeded = () => this.#lost && this.#guarded === guarded && !isDisowned()
    if (slot > commit.not_after_slot) await anchor(client, this.epoch, match_seq, this.head(), isNeeded)
    else if (slot - commit.sent_slot >= LIMITS.rebroadcast_slots) {
      commit.sent_slot = slot
      // The blockhash of the bytes sent before may be of the fork that lost.
      commit.newest = await this.#sign(commit, VARIANTS_AT.length)
      if (isNeeded()) await broadcast(client, commit.newest.wire)
    }
  }

  /** Signs the next variant when it is due, or when the newest expired; otherwise sends the newest again at intervals. */
  async #send(commit: Commit): Promise<void> {
    const { view } = this.client
    const waited = (view.options.monotonicMs() - commit.start_ms) / commit.commit_ms
    const due = VARIANTS_AT.filter((share) => waited >= share).length
    const expired =
      commit.newest !== undefined && view.agreed('height') > commit.newest.last_valid_block_height
    const { slot } = view.now()
    if (slot > commit.not_after_slot) return
    if (commit.variants < due || expired) {
      commit.newest = await this.#sign(commit, due)
      commit.variants = due
    } else if (slot - commit.sent_slot < LIMITS.rebroadcast_slots) return
    commit.sent_slot = slot
    await broadcast(this.client, commit.newest!.wire)
  }

  async #sign({ close, not_after_slot, not_after_s }: Commit, variant: number): Promise<SignedTransaction> {
    const { client, epoch } = this
    const instruction = anchorInstruction({
      program: client.vault.program,
      settlement_signer: client.signer_key,
      epoch,
      journal_seq: close.seq,
      journal_head: close.head,
      not_after_slot,
      not_after_s,
    })
    const waited_ms = LIMITS.fee_growth_after_ms * 2 ** (variant - 1)
    const limits = { compute_units: COMPUTE_UNITS, waited_ms }
    const built = await signVaultInstruction(
      client,
      instruction,
      await Terms.read(client, variant - 1),
      limits,
    )
    if ('failure' in built) throw new RangeError('the commit fits no transaction')
    return built.signed
  }

  /**
   * Committed: the stored commit is the close. Void: it is older, in an answer after the last slot at which the commit can
   * land, or of a later epoch. Any other commit is not of this journal.
   */
  #judge(commit: Commit, answers: readonly Answer<VaultSnapshot>[]): BatchDecision | undefined {
    const { rpc, view } = this.client
    const agreed = view.agreed('confirmed')
    const outcomeOf = ({ config, slot }: VaultSnapshot): BatchDecision['outcome'] | 'undecided' => {
      if (config.commit_seq >= commit.close.seq)
        return isCommit(config, commit.close) ? 'committed' : 'rolled_back'
      // A provider that claims to be ahead counts as at the agreed slot.
      const late = Math.min(slot, agreed) > commit.not_after_slot
      return late || config.epoch > this.epoch ? 'void' : 'undecided'
    }
    const shown = rpc.majority(answers, outcomeOf)
    if (shown === undefined) return undefined
    const outcome = outcomeOf(shown[0]!.value)
    if (outcome === 'undecided') return undefined
    // A quorum must agree on the evidence, because one provider may attach any evidence to its verdict.
    const reached = (of: (value: VaultSnapshot) => number) =>
      rpc.reached(shown.map(({ value }) => of(value)))!
    return {
      outcome,
      slot: reached(({ slot }) => slot),
      epoch: reached(({ config }) => config.epoch),
      commit_seq: reached(({ config }) => config.commit_seq),
    }
  }
}

function isCommit({ commit_seq, commit_head }: ConfigAccount, { seq, head }: ClosePosition): boolean {
  return commit_seq === seq && equalBytes(commit_head, head)
}
