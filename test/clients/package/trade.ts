/** A trader's program on the installed package: verify, deposit, trade, follow both fills to the finalized settlement. */
import { readFileSync } from 'node:fs'
import * as on_chain from '../../../client/chain/index'
import * as tacit from '../../../client/index'

const [facts, ...logins] = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, 'utf8')))
const policy = readFileSync(facts.policy, 'utf8')
const collateral = JSON.parse(readFileSync(facts.collateral, 'utf8'))
const random = (): Uint8Array => crypto.getRandomValues(new Uint8Array(32))

const finalized = new Map<string, string>()

async function open(login: tacit.Login, mint: string, amount: bigint): Promise<tacit.Session> {
  const [chain, wallet] = [
    await on_chain.openChainAccess(facts.rpc_url, random()),
    new tacit.Wallet(random()),
  ]
  await on_chain.airdrop(chain, 5_000_000_000n)
  await on_chain.mintTo(chain, mint, amount)
  const { bytes } = on_chain.ownAccount(chain, mint)
  while ((await on_chain.tokenBalance(chain, bytes)) < amount)
    await new Promise((done) => setTimeout(done, 100))
  await on_chain.deposit(chain, wallet, { program_id: facts.program_id, mint, amount, key_index: 0 })
  const path = `${login.api_key}.wallet`
  tacit.saveWallet(path, wallet)
  const venue = { url: facts.url, policy, connect: { collateral } }
  const event = ({ kind, data }: tacit.AccountEvent): void => {
    if (kind === 'fill.finalized') finalized.set((data as tacit.Fill).order_id, (data as tacit.Fill).amount)
  }
  return tacit.Session.open({ ...venue, login, account_id: login.account_id, wallet: path, event })
}

const verified = await tacit.connect(facts.url, tacit.parsePolicy(policy), { collateral })
const client = new tacit.VenueClient(verified, logins[0])
const { base_mint, quote_mint } = await client.instrument('SOL-USDC')
const [buyer, seller] = await Promise.all([
  open(logins[0], quote_mint, 200_000_000n),
  open(logins[1], base_mint, 1_000_000_000n),
])
/** A deposit is a note of the venue some slots later. */
async function place(session: tacit.Session, order: tacit.SessionOrder): Promise<tacit.Outcome> {
  for (;;) {
    const outcome = await session.place(order)
    if (outcome.status !== 'refused' || outcome.problem.code !== 'note_unknown') return outcome
    await new Promise((done) => setTimeout(done, 200))
  }
}
const order = { symbol: 'SOL-USDC', amount: '1', price: '150' }
const placed = [
  await place(buyer, { ...order, side: 'buy' }),
  await place(seller, { ...order, side: 'sell' }),
]
for (const [at, session] of [buyer, seller].entries())
  await session.until(() => finalized.has(placed[at]!.id) || undefined)
for (const session of [buyer, seller]) session.close()
console.log(JSON.stringify(placed.map(({ id, status }) => [status, finalized.get(id)])))
