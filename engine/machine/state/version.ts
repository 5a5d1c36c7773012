/** Lists the versions of rules and record formats that this build carries (cluster.md "Upgrade"). */

/** In which every journal begins; the first byte of a snapshot is the version of its state. */
export const FIRST_VERSION = 10
/**
 * Ascending, without a gap. A rule, a kind of command or a layout that decides or encodes otherwise is added under the next
 * number, and the code of the number before stays for as long as a journal or a snapshot of it may be read.
 */
export const VERSIONS: readonly number[] = [FIRST_VERSION]

/** This build does not carry the version of a journal or a snapshot: it must not start on it. */
export class VersionUnknown extends Error {
  override readonly name = 'VersionUnknown'
  constructor(readonly version: number) {
    super(
      `what is on this disk goes on in version ${version} of rules and formats, and this build carries ` +
        `${VERSIONS.join(' and ')}: start a build on it that carries ${version}`,
    )
  }
}

/** @throws VersionUnknown */
export function requireVersion(version: number): number {
  if (!VERSIONS.includes(version)) throw new VersionUnknown(version)
  return version
}
