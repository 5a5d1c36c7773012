/** The committed compose file with an operator's values, and the manifest of it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { appComposeText, canonicalJson } from '../../../protocol/tdx/app_compose'
import { fillIn } from '../../../tools/manifest/make_manifest'

const KEY = 'So11111111111111111111111111111111111111112'
export const COMMITTED_COMPOSE = readFileSync(join(import.meta.dir, '../../../compose.yaml'), 'utf8')
export const DIGEST = `sha256:${'ab'.repeat(32)}`
export const OPERATOR_VALUES = [
  `image=registry.example/tacit@${DIGEST}`,
  'SOLANA_RPC_URL=https://one.example,https://two.example/path',
  `TACIT_PROGRAM_ID=${KEY}`,
  `TACIT_OPERATOR_KEY=${KEY}`,
  `TACIT_FEE_KEY=${KEY}`,
]
export const FILLED_COMPOSE = fillIn(COMMITTED_COMPOSE, OPERATOR_VALUES)

/** The manifest of a compose file, in canonical form even where an attack adds a key. */
export function manifestOf(docker_compose_file: string, change: Record<string, unknown> = {}): string {
  const text = appComposeText({
    docker_compose_file,
    name: 'tacit',
    key_provider: 'kms',
    allowed_envs: ['TACIT_FEE_ANCHOR'],
    secure_time: false,
  })
  return canonicalJson({ ...JSON.parse(text), ...change })
}
