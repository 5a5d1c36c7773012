/** Runs the project's commands as processes, asks the validator directly, and reports what landed. */

import { join } from 'node:path'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { instructionName } from '../../protocol/vault/instruction'
import { DemoFailed } from '../../sandbox/demo/report'

const PROJECT = join(import.meta.dir, '../..')
/** Largest page of getSignaturesForAddress. */
const PAGE = 1_000

/** One JSON-RPC call without a client library, so that errors are the node's. @throws Error with the node's message */
export async function callRpc<T>(rpc_url: string, method: string, params: unknown[] = []): Promise<T> {
  const answer = await fetch(rpc_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  }).catch(() => {
    throw new DemoFailed(`${rpc_url} does not answer`)
  })
  const { result, error } = (await answer.json()) as { result: T; error?: { code: number; message: string } }
  if (error !== undefined) throw new Error(`${method}: ${error.message} (${error.code})`)
  return result
}

/** Runs a command of the project as a process; `typed` is its input. Resolves with its output. @throws Error with the output when it fails */
export async function runProcess(script: string, args: readonly string[], typed = ''): Promise<string> {
  const { SOLANA_RPC_URL: _, ...env } = process.env
  const child = Bun.spawn([process.execPath, join(PROJECT, script), ...args], {
    stdin: new Blob([typed]),
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

type Found = {
  version: 'legacy' | number
  transaction: [string, string]
  meta: { err: unknown; computeUnitsConsumed: number; fee: number }
}
type Row = { landed: number; failed: number; bytes_max: number; units_max: number }

/** Counts, largest size and compute units by instruction and version, over all transactions of the program. */
export async function landedReport(rpc_url: string, program_id: string): Promise<Map<string, Row>> {
  const commitment = 'confirmed'
  const signatures: { signature: string }[] = []
  for (let before: string | undefined; ; ) {
    const config = { commitment, limit: PAGE, ...(before === undefined ? {} : { before }) }
    const page = await callRpc<{ signature: string }[]>(rpc_url, 'getSignaturesForAddress', [
      program_id,
      config,
    ])
    signatures.push(...page)
    before = page.at(-1)?.signature
    if (page.length < PAGE) break
  }
  const rows = new Map<string, Row>()
  for (const { signature } of signatures) {
    const config = { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 }
    const found = await callRpc<Found | null>(rpc_url, 'getTransaction', [signature, config])
    if (found === null) continue
    const bytes = new Uint8Array(Buffer.from(found.transaction[0], 'base64'))
    const ours = transactionInstructions(bytes).find(({ program }) => program === program_id)
    const name = (ours && instructionName(ours.data)) ?? 'deployment'
    const key = `${name} v${found.version}`
    const row = rows.get(key) ?? { landed: 0, failed: 0, bytes_max: 0, units_max: 0 }
    if (found.meta.err === null) row.landed += 1
    else row.failed += 1
    row.bytes_max = Math.max(row.bytes_max, bytes.length)
    row.units_max = Math.max(row.units_max, found.meta.computeUnitsConsumed)
    rows.set(key, row)
  }
  return new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
}
