/** `bun run cluster-repair`: lets the log in etcd begin again behind the longest journal of the nodes. */

import { InputFault, Options, runCommand } from '../../client/cli/command'
import { Etcd } from '../../engine/cluster/etcd'
import { ReplicatedLog } from '../../engine/cluster/replicated_log'
import { clusterConfig } from '../../server/settings/config'
import { SETTINGS } from '../../server/settings/settings'

const USAGE = `usage: bun run cluster-repair --venue HEX --seq N --head HEX
For etcd that was emptied or put back, and for a log that begins from an existing journal. A node that finds its journal
ahead of the log prints the three values; take those of the node with the highest seq. No entry is removed: a log that
reaches that seq, or that a node leads, is left as it is. Nodes with a shorter journal need the folder of that node.
TACIT_ETCD_URLS, TACIT_ETCD_CA, TACIT_ETCD_CERT and TACIT_ETCD_KEY are read from the environment, as by a node.`

const NAMES = ['TACIT_ETCD_URLS', 'TACIT_ETCD_CA', 'TACIT_ETCD_CERT', 'TACIT_ETCD_KEY'] as const
const ANSWER_MS = 30_000

function setting<N extends (typeof NAMES)[number]>(name: N) {
  const value = SETTINGS[name].read(process.env[name] ?? '')
  if (typeof value !== 'string' && !Array.isArray(value)) throw new InputFault(`${name} is not as expected`)
  if (value.length === 0) throw new InputFault(`${name} is missing`)
  return value
}

function access() {
  const [urls, ca, cert, key] = NAMES.map(setting)
  return clusterConfig({
    TACIT_ETCD_URLS: urls as string[],
    TACIT_ETCD_CA: ca as string,
    TACIT_ETCD_CERT: cert as string,
    TACIT_ETCD_KEY: key as string,
  }).cluster!
}

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['venue', 'seq', 'head'] })
  const venue = options.hex32('venue')
  const head = options.hex32('head')
  const seq = Number(options.text('seq'))
  if (!Number.isSafeInteger(seq) || seq < 1) throw new InputFault('--seq is a positive integer')
  // No entry is read or written, so the key of the venue is not needed.
  const log = new ReplicatedLog(new Etcd(access()), { key: new Uint8Array(32), venue })
  const silence = Bun.sleep(ANSWER_MS).then(() => {
    throw new InputFault('no majority of etcd answers: nothing is known to have changed')
  })
  await Promise.race([log.beginBehind({ seq, head }), silence])
  console.log(`ok: the log begins behind seq ${seq}; start the node with that journal`)
})
