/** Reads files and addresses that an option names, and locks what a command changes. */
import { statSync } from 'node:fs'
import { Refused } from '../verify/transcript'
import { InUse, lockFile, placeOf } from '../wallet/file_lock'
import { InputFault, readInputText } from './command'
import { MEANINGS } from './config'

const locked = new Set<string>()

/**
 * Locks a wallet or an archive's folder until this process ends: two commands would use the same counters.
 * @throws Refused while another command holds the lock, NotWritten
 */
export function lockPath(named: string): void {
  const path = placeOf(named)
  if (locked.has(path)) return
  try {
    lockFile(named)
    locked.add(path)
  } catch (error) {
    if (error instanceof InUse) throw new Refused(error.message)
    throw error
  }
}

/** One URL, or several separated by commas. @throws InputFault for any other text */
export function rpcOf(text: string): string {
  const good = text.split(',').every((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
  if (!good) throw new InputFault(`--rpc is ${MEANINGS['rpc']}`)
  return text
}

/** @returns the path. @throws Refused for a file that others may read */
export function requireOwn(path: string): string {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0
  if ((mode & 0o077) !== 0) throw new Refused(`${path} can be read by others: chmod 600 it`)
  return path
}

/** First line of a file of one's own. @throws Refused, InputFault */
export function passwordIn(path: string): string {
  const [password = ''] = readInputText(requireOwn(path)).split(/\r?\n/)
  if (password === '') throw new Refused(`${path} begins with an empty line: its first line is the password`)
  return password
}
