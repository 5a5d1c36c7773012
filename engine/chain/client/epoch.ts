/** Opens the next epoch on chain and anchors the journal head. */
import { venueId } from '../../../protocol/bodies/statements'
import { equalBytes } from '../../../protocol/bytes'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import { announcementAddress } from '../../../protocol/vault/admin'
import {
  anchorInstruction,
  openAttestedEpochInstructions,
  platformOf,
  quotedFields,
} from '../../../protocol/vault/epochs'
import type { VaultErrorName } from '../../../protocol/vault/errors'
import { platformAddress, registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { LIMITS } from '../../limits'
import { type ChainPort, EpochTaken } from '../../ports'
import type { ChainClient } from './chain_client'
import { supervise } from './health'
import { type Landing, landInstruction } from './land_instruction'
import { readAgreedVault, readProgramAccount, readVaults, VaultAbsent, VaultUnreadable } from './read_vault'
import type { Level } from './slot_view'
import { ChainProgramError } from './transaction_status'

/** Of one opening, with precompile and replay of RTMR3 (`program/README.md`). */
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
      // No record: of the platform, as long as that may be missing, or of what the admin did not announce.
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
 * Stores `own` on chain unless the position there covers record `seq` already. Resolves once one that does is finalized.
 * @throws ChainProgramError, ChainUnavailable
 */
export async function anchor(
  client: ChainClient,
  epoch: number,
  seq: number,
  own: { seq: number; head: Uint8Array },
): Promise<void> {
  const prepare = async () => {
    if ((await readPosition(client, own)) >= seq) return undefined
    const { program } = client.vault
    const limits = { not_after_slot: 0, not_after_s: 0 }
    const position = { epoch, journal_seq: own.seq, journal_head: own.head, ...limits }
    return anchorInstruction({ program, settlement_signer: client.signer_key, ...position })
  }
  await landInstruction(client, { prepare, deadline_ms: LIMITS.anchor_landing_max_ms })
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
