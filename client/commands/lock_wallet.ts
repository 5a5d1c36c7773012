/** One command at a time on a wallet: two would use the same counters, and the last to save would forget the other's notes. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { CommandRefused } from './command_refused'

/**
 * Held until this process ends, however it ends: a lock whose process is gone is taken over.
 * @throws CommandRefused while another command holds it
 */
export function lockWallet(wallet_path: string): void {
  const path = `${wallet_path}.lock`
  if (existsSync(path) && !runs(Number(readFileSync(path, 'utf8')))) rmSync(path, { force: true })
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new CommandRefused(`${path} cannot be written: name a --wallet in a folder that is yours`)
    throw new CommandRefused(
      `another command uses ${wallet_path}: wait for it to end (${path} names its process)`,
    )
  }
  process.once('exit', () => rmSync(path, { force: true }))
}

function runs(pid: number): boolean {
  try {
    return Number.isInteger(pid) && pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
