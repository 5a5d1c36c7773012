/** Reads what `start` wrote for the venue of this machine: where it is, and what to accept as it. Bun, Node and Deno. */
import { Refused } from './verify/transcript'

/** Paths as `start` wrote them. */
export type SandboxVenue = {
  url: string
  policy: string
  collateral: string
  rpc_url: string
  program_id: string
  /** Of its demo account, if it has one. */
  login?: string
}

/** Undefined where `start` never ran. @param data its data folder */
export function readSandboxVenue(data = 'data'): SandboxVenue | undefined {
  const { existsSync, readFileSync } = process.getBuiltinModule('node:fs')
  const facts = `${data}/laptop.json`
  if (!existsSync(facts)) return undefined
  const { url, policy, collateral, rpc_url, program_id } = JSON.parse(readFileSync(facts, 'utf8'))
  const login = `${data}/demo-login.json`
  return { url, policy, collateral, rpc_url, program_id, ...(existsSync(login) ? { login } : {}) }
}

/** The texts of policy and collateral of the venue of this machine. @throws Refused where another one is at `url` */
export function sandboxTerms(url: string, data?: string): { policy: string; collateral: string } {
  const found = readSandboxVenue(data)
  if (found === undefined || new URL(found.url).origin !== new URL(url).origin)
    throw new Refused(`a policy is needed for ${url}: 'start' wrote none for it into ./data`)
  const { readFileSync } = process.getBuiltinModule('node:fs')
  return { policy: readFileSync(found.policy, 'utf8'), collateral: readFileSync(found.collateral, 'utf8') }
}
