/** Runs one of the project's commands as an operator or a trader does: a process of its own, its words printed. */
import { join } from 'node:path'

const PROJECT = join(import.meta.dir, '../..')

/** Resolves with what it printed. @throws Error with what it said when it failed */
export async function runCommand(script: string, args: readonly string[]): Promise<string> {
  const { SOLANA_RPC_URL: _, ...env } = process.env
  const child = Bun.spawn([process.execPath, join(PROJECT, script), ...args], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env,
  })
  const [out, failure] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if ((await child.exited) !== 0) throw new Error(`${script} ${args[0]}: ${failure}${out}`)
  return out.trim()
}
