/** Audits a venue from outside: the build, the vault's reserves and history on a node of one's own, the published prices. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import bs58 from 'bs58'
import * as on_chain from '../client/chain/index'
import * as tacit from '../client/index'
import { explainErrors, Misused } from './open_trader'

explainErrors()
const [, , data, login_path] = process.argv
if (data === undefined || login_path === undefined) throw new Misused('DATA LOGIN')
const read = (path: string): string => readFileSync(path, 'utf8')
const facts = JSON.parse(read(join(data, 'laptop.json')))
const faults: string[] = []

// Which build answers: nothing is believed before.
const collateral = JSON.parse(read(facts.collateral))
const verified = await tacit.connect(facts.url, tacit.parsePolicy(read(facts.policy)), { collateral })
const client = new tacit.VenueClient(verified, JSON.parse(read(login_path)))

// Whether the vault can pay: balances and liabilities from the node, and the same as the venue publishes.
const chain = on_chain.openChainReader(facts.rpc_url)
const { mints } = await client.transparency()
const reserves = []
for (const { mint, vault, outstanding, stale } of mints) {
  const { liabilities, queued } = await on_chain.readMintRecord(chain, facts.program_id, mint)
  const balance = await on_chain.tokenBalance(chain, bs58.decode(vault))
  if (balance < liabilities + queued) faults.push(`${mint}: the vault holds less than it owes`)
  if (!stale && BigInt(outstanding) > balance)
    faults.push(`${mint}: the venue publishes more liabilities than reserves`)
  reserves.push({ mint, balance: String(balance), owed: String(liabilities + queued) })
}

// Whether roots, spent log and payout queue follow from the public events alone.
const state = await on_chain.readVaultState(chain, facts.program_id)
const audit = tacit.auditChain(await on_chain.readVaultEvents(chain, facts.program_id), state)
if (audit.verdict !== 'agrees') faults.push(`the history of the vault ${audit.verdict}`)

// Whether the published prices are one unbroken, signed chain.
const rows: Record<string, number> = {}
for (const { symbol } of await client.instruments()) {
  const asked = { symbol, period: 'hour' } as const
  let last: tacit.StatisticsRow | undefined
  for (let after: number | null = 0; after !== null; ) {
    const page: tacit.Statistics = await client.statistics(symbol, { period: 'hour', after })
    const verified_rows = await tacit.verifyStatistics(page, asked, tacit.identityOf(verified), last)
    rows[symbol] = (rows[symbol] ?? 0) + verified_rows.length
    last = verified_rows.at(-1) ?? last
    after = page.next_after
  }
}
console.log(
  JSON.stringify({
    faults,
    compose_hash: verified.info.compose_hash,
    reserves,
    history: audit.verdict,
    rows,
  }),
)
process.exitCode = faults.length === 0 ? 0 : 1
