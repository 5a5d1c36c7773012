/** Faults that no test can notice, each by its exact place and with the reason. A report counts them apart. */

/** `file: old lines => new lines`, as a report prints them. */
export const EXPLAINED: Readonly<Record<string, string>> = {}
