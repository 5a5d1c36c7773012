/** What was asked cannot be done as it was asked; the message says what can. */
export class CommandRefused extends Error {
  override readonly name = 'CommandRefused'
}
