/** The chain is past the epoch this instance wanted: an earlier one of it, or another instance, was faster. */
export class EpochTaken extends Error {
  override readonly name = 'EpochTaken'
}
