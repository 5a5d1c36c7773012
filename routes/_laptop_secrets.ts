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
const OTHER = 'name another folder in TACIT_DATA_DIR'

/** The data folder does not serve a venue; the message is for whoever starts it. */
export class LaptopRefused extends Error {}

/** Reads them, or makes them readable by the owner only. @throws LaptopRefused with a sentence for the person who starts it */
export async function laptopSecrets(data_dir: string): Promise<LaptopSecrets> {
  const path = join(data_dir, SECRETS_FILE)
  if (existsSync(path)) return readSecrets(path)
  // The journal holds records and settings made with them: others would start a venue that nobody can log in to.
  if (existsSync(join(data_dir, 'journal')))
    throw new LaptopRefused(
      `${path} is missing, and the journal beside it needs it: put it back, or ${OTHER}`,
    )
  const made = await makeSecrets()
  try {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 })
    writeFileSync(join(data_dir, OPERATOR_KEY_FILE), `${made.operator_seed}\n`, { mode: 0o600 })
    writeFileSync(`${path}.new`, JSON.stringify(made, null, 2), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch (error) {
    const { code } = error as { code?: string }
    throw new LaptopRefused(`the data folder ${data_dir} cannot be made or written (${code}): ${OTHER}`)
  }
  return made
}

function readSecrets(path: string): LaptopSecrets {
  try {
    const { operator_seed, fee_seed, fee_anchor, demo } = JSON.parse(readFileSync(path, 'utf8'))
    if ([operator_seed, fee_seed, fee_anchor].every(isSeed) && demo?.record && demo.credentials)
      return { operator_seed, fee_seed, fee_anchor, demo }
  } catch {
    // A file that cannot be read is as good as a damaged one.
  }
  throw new LaptopRefused(`${path} is damaged or cannot be read: put a copy back, or ${OTHER}`)
}

const isSeed = (text: unknown) => typeof text === 'string' && fromHex(text, 32) !== undefined

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
