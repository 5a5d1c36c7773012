/** Which builds have run this venue, and from which slot on: for ever, so that nobody can have run another unseen. */
import type { Transparency } from '../../protocol/wire'
import type { SealedRows } from './sealed_rows'

export type Build = Transparency['builds'][number]

export class Builds {
  constructor(private readonly rows: SealedRows) {}

  /** The build of an opened epoch; only a change makes an entry. */
  opened(build: Build): void {
    const builds = this.all()
    const last = builds.at(-1)
    const same = last?.compose_hash === build.compose_hash && last.tacit_version === build.tacit_version
    if (!same) this.rows.set('builds', [...builds, build])
  }

  all(): Build[] {
    return this.rows.get<Build[]>('builds') ?? []
  }
}
