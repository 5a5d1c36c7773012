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
