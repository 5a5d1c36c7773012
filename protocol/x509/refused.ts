/** Declares the rejection of evidence and documents. */

/** Evidence or a document is rejected; every check returns or throws this. The message may be shown: it has no secret. */
export class Refused extends Error {
  override readonly name: string = 'Refused'
}
