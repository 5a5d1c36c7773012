/** `bun run manifest`: writes the exact app-compose.json of the venue and prints its hash, or rejects with every reason. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readInputText, runCommand } from '../../client/cli/command'
import { composeHash, fillIn, judgeManifest, type ManifestDecisions, makeManifest } from './make_manifest'

const USAGE = `usage: bun run manifest [--compose compose.yaml] [--set NAME=VALUE]... [--out app-compose.json]
                       [--name tacit] [--secure-time] [--key-provider-id HEX]
       bun run manifest --check app-compose.json

Writes app-compose.json and prints its SHA-256, the compose hash. Same inputs, same bytes, on any machine.
  --compose          compose.cluster.yaml for a node of several
  --set              writes a value (image, or a setting) into the compose file, unless the manifest is refused
  --key-provider-id  DER public key of the KMS root; pins the KMS
  --secure-time      NTS before the containers start. Off unless asked for: guest images whose chrony lacks NTS never
                     finish booting with it, and no decision about money rests on the wall clock
  --check            judges a manifest another tool wrote or changed, and prints its hash`

const OPTIONS = {
  compose: { type: 'string', default: join(import.meta.dir, '../../compose.yaml') },
  set: { type: 'string', multiple: true, default: [] as string[] },
  out: { type: 'string', default: 'app-compose.json' },
  name: { type: 'string', default: 'tacit' },
  'secure-time': { type: 'boolean', default: false },
  'key-provider-id': { type: 'string' },
  check: { type: 'string' },
} as const

type Values = ReturnType<typeof parse>
const parse = () => parseArgs({ options: OPTIONS, strict: true, allowPositionals: false }).values

function refuse(reasons: readonly string[]): never {
  console.error(`manifest refused:\n${reasons.map((reason) => `  ${reason}`).join('\n')}`)
  process.exit(1)
}

function decisionsOf(values: Values): ManifestDecisions {
  const { name, 'key-provider-id': key_provider_id } = values
  const pinned = key_provider_id === undefined ? {} : { key_provider_id }
  return { name, secure_time: values['secure-time'], ...pinned }
}

function check(path: string): void {
  const text = readInputText(path)
  const faults = judgeManifest(text)
  if (faults.length > 0) refuse(faults)
  console.log(`compose hash  ${composeHash(text)}`)
}

function write(values: Values): void {
  const decisions = decisionsOf(values)
  const compose = fillIn(readInputText(values.compose), values.set)
  const { manifest, faults } = makeManifest(compose, decisions)
  if (faults !== undefined) refuse(faults)
  if (values.set.length > 0) writeFileSync(values.compose, compose)
  writeFileSync(values.out, manifest.text)
  console.log(`manifest      ${values.out}`)
  console.log(`compose hash  ${manifest.compose_hash}`)
  console.log(`secrets       ${manifest.allowed_envs.join(', ') || 'none'}`)
  if (decisions.key_provider_id === undefined)
    console.log(
      'note          no KMS is pinned: clients recognize another KMS only by the settlement signer on chain',
    )
}

await runCommand(
  USAGE,
  () => {
    const values = parse()
    if (values.check !== undefined) check(values.check)
    else write(values)
  },
  ({ message }) => ({ code: 64, message: `${message}\n\n${USAGE}` }),
)
