/** `tacit archive` writes or extends an archive of a vault's public events, which anyone may mirror as files. */
import { currentHistory } from '../chain/current_history'
import type { Verb } from './call'
import { lockPath } from './options'
import { described, reporting } from './recover_notes'

export const ARCHIVE: Verb = {
  form: '--out FOLDER',
  reads: ['chain'],
  says: `writes every event of a vault, or what came since the last time, and checks both trees against the vault; the files
  may be mirrored as they are: wallet recover, wallet sync, exit and audit-chain take --archive FOLDER|URL`,
  example: 'tacit archive --out archive',
  async run(call) {
    const from = { folder: call.text('out') }
    lockPath(from.folder)
    const current = await currentHistory(call.reader(), call.program(), from, reporting())
    call.say('archive', described(current))
  },
}
