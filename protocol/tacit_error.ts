/** Declares the errors of the faces: one class, and the rejection of evidence and documents. */
export abstract class TacitError<Facts extends object = object> extends Error {
  abstract readonly code: string
  constructor(
    message: string,
    readonly facts: Facts,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** A reason to stop trading that no repetition repairs: another account, a venue that fails its verification, lost events. */

export abstract class MustStop<Facts extends object = object> extends TacitError<Facts> {}

/** Evidence or a document is rejected; every check returns or throws this. The message may be shown: it has no secret. */
export class Refused extends TacitError {
  override readonly name: string = 'Refused'
  readonly code: string = 'refused'
  constructor(finding: string, options?: ErrorOptions) {
    super(finding, {}, options)
  }
}
