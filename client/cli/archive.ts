/** Runs `tacit archive`: writes or extends an archive of a vault's public events, which anyone may mirror as files. */
import { openChainReader } from '../chain/chain_access'
import { currentHistory } from '../chain/current_history'
import { hashFast } from '../wallet/hash_fast'
import { Options } from './command'
import { lockPath, rpcOf } from './options'
import { described, reporting } from './recover_notes'

export const ARCHIVE_USAGE = `       tacit archive --rpc URL[,URL] --program ADDRESS --out FOLDER
         writes every event of a vault, or what came since the last time, and checks both trees against the vault; the files
         may be mirrored as they are: recover, sync, exit and audit-chain take --archive FOLDER|URL`

export async function runArchive(args: string[]): Promise<void> {
  const options = new Options(args, { texts: ['rpc', 'program', 'out'] })
  await hashFast()
  const from = { folder: options.text('out') }
  lockPath(from.folder)
  const chain = openChainReader(rpcOf(options.text('rpc')))
  console.log(
    `archive      ${described(await currentHistory(chain, options.text('program'), from, reporting()))}`,
  )
}
