/** The one door into the state: decides a command and, unless it is refused, applies it. */
import type { Command } from '../commands'
import type { Env, Outcome } from './outcome'
import type { State } from './state'

/**
 * Deterministic: state and command in, the same outcome and the same new state on every machine. A refusal changes
 * nothing. Orders of a live order's event carry the fills whose commitments are known; later fills follow as
 * `fill.matched` events.
 * @throws Error when the command contradicts the state in a way no client can cause; the process must stop.
 */
export function execute(_state: State, _command: Command, _env: Env): Outcome {
  throw new Error('not reached')
}
