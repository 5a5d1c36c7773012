/** A client command whose form and signatures hold, with the bytes its receipt leaf covers. */
import type { CommandBody } from '../commands'

export type Signed<C extends CommandBody> = {
  command: C
  /** Canonical body and its signature; several in a row where a command carries several (protocol/receipt.ts). */
  body_and_signature: Uint8Array
}
