/** A reason to stop trading that no repetition repairs: another account, a venue that fails its verification, lost events. */
export class MustStop extends Error {}
