/** Generates operator, fee and demo secrets on the first start of a sandbox, so that one command is enough. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ageRecipientOf, newAgeKey, readAgeIdentity } from '../protocol/age'
import { fromHex, toHex } from '../protocol/bytes'
import { reduceWide } from '../protocol/field'

export type SandboxSecrets = {
  /** Ed25519 seeds, hex. */
  operator_seed: string
  fee_seed: string
  /** A field element, hex. */
  fee_anchor: string
  /** Wallet seed of the demo trader, from which its account key derives; hex. */
  demo_seed: string
}
/** One file per purpose: the operator's key is handed to tools by its path. */
export const OPERATOR_KEY_FILE = 'operator.key'
/** The age identity that reads the exports of the sandbox's batches. */
export const AUDITOR_KEY_FILE = 'auditor.key'
const SECRETS_FILE = 'laptop-secrets.json'
const OTHER = 'name another folder in TACIT_DATA_DIR'

/** The data folder is unusable; the message says why and what to do. */
class SandboxRefused extends Error {
  override readonly name = 'SandboxRefused'
}

/** Reads them, or generates them readable by the owner only. @throws SandboxRefused when the folder is unusable */
export function sandboxSecrets(data_dir: string): SandboxSecrets {
  const path = join(data_dir, SECRETS_FILE)
  if (existsSync(path)) return readSecrets(path)
  // The journal holds accounts and settings made with these secrets: with others, the operator's calls would fail.
  if (existsSync(join(data_dir, 'journal')))
    throw new SandboxRefused(
      `${path} is missing, and the journal beside it needs it: put it back, or ${OTHER}`,
    )
  const made = makeSecrets()
  try {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 })
    writeFileSync(join(data_dir, OPERATOR_KEY_FILE), `${made.operator_seed}\n`, { mode: 0o600 })
    writeFileSync(`${path}.new`, JSON.stringify(made, null, 2), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch (error) {
    const { code } = error as { code?: string }
    throw new SandboxRefused(`the data folder ${data_dir} cannot be made or written (${code}): ${OTHER}`)
  }
  return made
}

/** The recipient of the auditor's key, which is made in the data folder if it is missing. @throws SandboxRefused */
export async function sandboxAuditor(data_dir: string): Promise<string> {
  const path = join(data_dir, AUDITOR_KEY_FILE)
  if (!existsSync(path)) {
    const { file, recipient } = await newAgeKey()
    writeFileSync(path, file, { flag: 'wx', mode: 0o600 })
    return recipient
  }
  const identity = readAgeIdentity(readFileSync(path, 'utf8'))
  if (identity === undefined)
    throw new SandboxRefused(`${path} holds no age identity: put a copy back, or delete it for another key`)
  return await ageRecipientOf(identity)
}

function readSecrets(path: string): SandboxSecrets {
  try {
    const { operator_seed, fee_seed, fee_anchor, demo_seed } = JSON.parse(readFileSync(path, 'utf8'))
    if ([operator_seed, fee_seed, fee_anchor, demo_seed].every(isSeed))
      return { operator_seed, fee_seed, fee_anchor, demo_seed }
  } catch {
    // An unreadable file counts as damaged.
  }
  throw new SandboxRefused(`${path} is damaged or cannot be read: put a copy back, or ${OTHER}`)
}

const isSeed = (text: unknown) => typeof text === 'string' && fromHex(text, 32) !== undefined

function makeSecrets(): SandboxSecrets {
  return {
    operator_seed: toHex(randomBytes(32)),
    fee_seed: toHex(randomBytes(32)),
    fee_anchor: toHex(reduceWide(randomBytes(48))),
    demo_seed: toHex(randomBytes(32)),
  }
}
