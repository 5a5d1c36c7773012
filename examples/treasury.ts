/** Merges the smallest notes of a token, splits the result into equal notes, and withdraws an amount; prints the balances. */
import * as tacit from '../client/index'
import { explainErrors, Misused, openTrader } from './open_trader'

explainErrors()
const [, , data, wallet_path, login, mint, amount, destination] = process.argv
if (!data || !wallet_path || !login || !mint || !amount || !destination)
  throw new Misused('DATA WALLET LOGIN MINT AMOUNT TOKEN_ACCOUNT')

const MERGED_MAX = 4
const PARTS = 4n
const POLL_MS = 200

const { session } = await openTrader([data, wallet_path, login])
const { client, wallet } = session
const sum = (notes: readonly tacit.WalletNote[]): bigint =>
  notes.reduce((total, note) => total + BigInt(note.amount), 0n)
const freeNotes = () =>
  wallet.freeNotes(mint).toSorted((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? -1 : 1))

/** The same request again until its outcome is known: an unknown one may have been applied. */
async function known(outcome: tacit.Outcome): Promise<string> {
  while (outcome.status === 'unknown') outcome = await session.settle(outcome.id)
  if (outcome.status === 'refused') throw new tacit.VenueProblem(outcome.problem)
  return outcome.id
}

/** Waits for the last stage: a note counts once it is in the finalized tree. */
async function ended(read: () => Promise<{ status: string }>): Promise<string> {
  for (;;) {
    const { status } = await read()
    if (['finalized', 'paid', 'refunded', 'voided'].includes(status)) return status
    await Bun.sleep(POLL_MS)
  }
}
async function reshape(notes: tacit.WalletNote[], amounts: bigint[]): Promise<void> {
  const id = await known(await session.reshape(notes, amounts))
  const status = await ended(() => client.reshapeOf(id))
  if (status !== 'finalized') throw new Error(`the reshape ended as ${status}`)
  await session.until(
    () => amounts.every((one) => freeNotes().some((note) => BigInt(note.amount) === one)) || undefined,
  )
}

const before = wallet.balance(mint)
const small = freeNotes().slice(0, MERGED_MAX)
if (small.length > 1) await reshape(small, [sum(small)])
const largest = freeNotes().at(-1)
if (largest === undefined) throw new Error('the wallet has no free note of this token')
const total = BigInt(largest.amount)
const part = total / PARTS
await reshape([largest], [part, part, part, total - (PARTS - 1n) * part])
const id = await known(await session.withdraw({ mint, amount, destination }))
const withdrawal = await ended(async () => {
  const state = await client.withdrawal(id)
  // `finalized` is the batch; the payment is a separate transaction.
  return { status: state.status === 'finalized' ? 'under way' : state.status }
})
const { fee } = await client.withdrawal(id)
await session.until(() => wallet.freeNotes(mint).length >= Number(PARTS) - 1 || undefined)
console.log(
  JSON.stringify({
    before: String(before),
    after: String(wallet.balance(mint)),
    fee,
    notes: freeNotes().length,
    withdrawal,
  }),
)
session.close()
