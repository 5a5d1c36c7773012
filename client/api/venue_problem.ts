/** A refusal of the venue as the client sees it: RFC 9457 problem with a stable code. */
import type { RefusalCode } from '../../protocol/refusals'
import type { Problem } from '../../protocol/wire'

export class VenueProblem extends Error {
  readonly status: number
  readonly code: RefusalCode
  /** `yes` only for an identical resend, `unknown` only with 500; otherwise nothing was changed. */
  readonly applied: Problem['applied']
  constructor(readonly problem: Problem) {
    super(`${problem.code}: ${problem.message}`)
    this.name = 'VenueProblem'
    this.status = problem.status
    this.code = problem.code as RefusalCode
    this.applied = problem.applied
  }
}
