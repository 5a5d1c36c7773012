/** What the validator ran of the vault: each kind of instruction with its transactions' versions, bytes and units. */
import { transactionInstructions } from '../../engine/chain/transaction_instructions'
import { instructionName } from '../../protocol/vault/discriminators'
import { callRpc } from './call_rpc'

type Found = {
  version: 'legacy' | number
  transaction: [string, string]
  meta: { err: unknown; computeUnitsConsumed: number; fee: number }
}
type Row = { landed: number; failed: number; bytes_max: number; units_max: number }

const PAGE = 1_000

/** Rows by instruction and version, from every transaction that names the program. */
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
