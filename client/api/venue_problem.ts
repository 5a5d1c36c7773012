/** A refusal of the venue as the client sees it: RFC 9457 problem with a stable code. */
import type { RefusalCode } from '../../protocol/refusals'
import type { Problem } from '../../protocol/wire'

export class VenueProblem extends Error {
  readonly status: number
  readonly code: RefusalCode
  /** `yes` only for an identical resend; otherwise a 4xx or 503 changed nothing. */
  readonly applied: 'no' | 'yes'
  constructor(readonly problem: Problem) {
    super(`${problem.code}: ${problem.message}`)
    this.name = 'VenueProblem'
    this.status = problem.status
    this.code = problem.code as RefusalCode
    this.applied = problem.applied
  }
}
