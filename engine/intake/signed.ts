/** A client command whose form holds: what its signer claims, and the command those signatures make of it. */
import type { CommandBody } from '../commands'

/** That `trading_key` signed exactly `body`; 64, any and 32 bytes. */
export type Claim = { signature: Uint8Array; body: Uint8Array; trading_key: Uint8Array }

export type Signed<C extends CommandBody> = {
  /** Must all hold before `command` is asked for. */
  claims: readonly Claim[]
  /** With the facts of its openings: a note is opened for nobody who did not sign, and against the state of that moment. */
  command: () => C
  /** Canonical body and its signature; several in a row where a command carries several (protocol/receipt.ts). */
  body_and_signature: Uint8Array
}
