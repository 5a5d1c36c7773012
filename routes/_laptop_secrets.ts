/** What a laptop venue makes up for itself on its first start, so that one command is enough: operator, fee and demo secrets. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AccountRecord } from '../protocol/account_record'
import { fromHex, toHex } from '../protocol/bytes'
import { reduceWide } from '../protocol/field'
import type { TokenRequest } from '../protocol/wire'
import { DEFAULT_TERMS, issueAccount } from '../tools/account/issue_account'

export type LaptopSecrets = {
  /** Ed25519 seeds, hex. */
  operator_seed: string
  fee_seed: string
  /** A field element, hex. */
  fee_anchor: string
  demo: { credentials: TokenRequest; record: AccountRecord }
}
/** One file per purpose: the operator's key is handed to tools by its path. */
export const OPERATOR_KEY_FILE = 'operator.key'
const SECRETS_FILE = 'laptop-secrets.json'

/** Reads them, or makes them readable by the owner only. */
export async function laptopSecrets(data_dir: string): Promise<LaptopSecrets> {
  const path = join(data_dir, SECRETS_FILE)
  if (!existsSync(path)) {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 })
    const made = await makeSecrets()
    writeFileSync(join(data_dir, OPERATOR_KEY_FILE), `${made.operator_seed}\n`, { mode: 0o600 })
    writeFileSync(`${path}.new`, JSON.stringify(made, null, 2), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  }
  return JSON.parse(readFileSync(path, 'utf8')) as LaptopSecrets
}

async function makeSecrets(): Promise<LaptopSecrets> {
  const operator_seed = toHex(randomBytes(32))
  const terms = { ...DEFAULT_TERMS, account_id: 'demo' }
  return {
    operator_seed,
    fee_seed: toHex(randomBytes(32)),
    fee_anchor: toHex(reduceWide(randomBytes(48))),
    demo: await issueAccount(terms, fromHex(operator_seed, 32)!, Date.now()),
  }
}
