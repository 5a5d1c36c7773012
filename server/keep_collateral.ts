/** Renews the collateral that the next start falls back on while the venue runs, and reports when the kept one expires soon. */

import type { ClockPort } from '../engine/ports'
import type { Log } from './edge/log'
import { COLLATERAL_CHECK_MS, COLLATERAL_WARNING_MS } from './limits'
import { type Judgement, MachineUnjudged } from './self_check'

type Kept = {
  /** Of the start. */
  first: Pick<Judgement, 'valid_until_ms'>
  /** Fetches, judges and keeps collateral; falls back on the kept one. */
  judge(): Promise<Pick<Judgement, 'valid_until_ms'>>
  clock: Pick<ClockPort, 'unixMs'>
  log: Log
  every_ms?: number
}

/** What the next start can fall back on, while Intel's service does not answer. */
export interface KeptCollateral {
  /** Its end in Unix milliseconds. */
  endsMs(): number
  /** Whether it ends within COLLATERAL_WARNING_MS. */
  isEnding(): boolean
  stop(): void
}

/** The verdict itself stays that of the start: a running venue is judged by its clients. */
export function keepCollateral({ first, judge, clock, log, every_ms }: Kept): KeptCollateral {
  let ends_ms = first.valid_until_ms
  const renew = () =>
    judge().then(
      ({ valid_until_ms }) => {
        ends_ms = valid_until_ms
      },
      (error: unknown) => {
        const reason = error instanceof MachineUnjudged ? error.message : 'the guest agent gave no quote'
        log.write('warn', 'machine_unjudged', { reason })
      },
    )
  const timer = setInterval(renew, every_ms ?? COLLATERAL_CHECK_MS)
  timer.unref()
  return {
    endsMs: () => ends_ms,
    isEnding: () => ends_ms - clock.unixMs() < COLLATERAL_WARNING_MS,
    stop: () => clearInterval(timer),
  }
}
