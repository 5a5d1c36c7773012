/** Defines the venue data that intake reads, its result (a command with the signatures to verify), and the opening of notes. */

import { loadNativeEd25519 } from '../../native/load_ed25519'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { concatBytes, equalBytes } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { nullifierOf, openingCommitment } from '../../protocol/notes/notes'
import { Refusal } from '../../protocol/refusals'
import type { Instrument, NoteOpening } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { CommandBody, NoteFact } from '../commands'
import { indexOf, type Past } from '../machine/state/past'
import type { State } from '../machine/state/state'
import { type InstrumentRules, rulesOf } from './instrument_rules'

/** Decides whether an opening can matter. */
export type KnownNotes = { state: State; past: Past }

export type Intake = {
  /** The venue id that every signed body carries. */
  venue: Uint8Array
  rules: ReadonlyMap<string, InstrumentRules>
  known: KnownNotes
}

/** A client command that keeps the public rules, whose signatures are not verified yet. */
export type Signed<C extends CommandBody> = {
  /** Every claim must be verified before `command` is called. */
  claims: readonly Claim[]
  /** Builds the command and opens its notes against the current state: call it after verification, right before execution. */
  command: () => C
  /** Canonical body and its signature; concatenated when a command carries several (protocol/bodies/statements.ts). */
  body_and_signature: Uint8Array
}

/** The claim that `trading_key` (32 bytes) signed exactly `body`; the signature has 64 bytes. */
export type Claim = { signature: Uint8Array; body: Uint8Array; trading_key: Uint8Array }

export function intakeOf(
  venue: Uint8Array,
  instruments: readonly Omit<Instrument, 'status'>[],
  known: KnownNotes,
): Intake {
  return { venue, known, rules: new Map(instruments.map((one) => [one.symbol, rulesOf(one)])) }
}

/** A command that one or more keys signed, each its own body. */
export function signedBy<C extends CommandBody>(claims: readonly Claim[], command: () => C): Signed<C> {
  const parts = claims.flatMap(({ body, signature }) => [body, signature])
  return { claims, command, body_and_signature: concatBytes(...parts) }
}

/** Refuses `instrument_unknown`. */
export function rulesFor(intake: Intake, symbol: string): InstrumentRules {
  const rules = intake.rules.get(symbol)
  if (rules === undefined) throw new Refusal('instrument_unknown')
  return rules
}

/**
 * The facts of an opening for the signing key (protocol.md "Notes"). Costs about five Poseidon hashes, a millisecond, so
 * it skips known notes of this key and notes without a finalized leaf, which stay unknown either way. For a note of another
 * key the work is the same whether or not the venue knows it.
 * @param wanted commitment that the signed body names
 */
export function openNote(
  known: KnownNotes,
  wanted: Uint8Array,
  opening: Parsed<typeof NoteOpening> | null | undefined,
  owner: Uint8Array,
): NoteFact | undefined {
  if (!opening || isOwn(known, wanted, owner)) return undefined
  const leaf = indexOf(known.state, known.past, 'leaves', wanted)
  if (leaf === undefined || (opening.leaf_index ?? leaf) !== leaf) return undefined
  const commitment = openingCommitment({ owner, ...opening })
  return { ...opening, commitment, nullifier: nullifierOf(commitment, opening.blinding), leaf }
}

function isOwn({ state: { notes } }: KnownNotes, wanted: Uint8Array, owner: Uint8Array): boolean {
  const note = notes.find(wanted)
  return note !== undefined && equalBytes(note.owner, owner)
}

const compiled = loadNativeEd25519()
const verify = compiled ?? verifySignature

/** What this process computes without its compiled library, which is absent, damaged or for another machine. */
export function portableCode(): string[] {
  return [
    ...(compiled === undefined ? ['signatures (Ed25519)'] : []),
    ...(loadNativePoseidon() === undefined ? ['hashes of notes (Poseidon)'] : []),
  ]
}

/**
 * Whether every claim verifies (protocol.md "Signature rule"). On the caller's thread, where a signature costs less
 * processor time than with the round trip to another one (native/README.md).
 */
export function claimsHold(claims: readonly Claim[]): boolean {
  return claims.every(({ signature, body, trading_key }) => verify(signature, body, trading_key))
}
