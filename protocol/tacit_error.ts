/** The one class of the errors that a trader's program may expect: a stable code to compare, and typed facts. */

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
