/** Declares the rejection of evidence and documents. */
import { TacitError } from '../tacit_error'

/** Evidence or a document is rejected; every check returns or throws this. The message may be shown: it has no secret. */
export class Refused extends TacitError {
  override readonly name: string = 'Refused'
  readonly code: string = 'refused'
  constructor(finding: string, options?: ErrorOptions) {
    super(finding, {}, options)
  }
}
