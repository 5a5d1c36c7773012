/** What the payouts of a batch must be and do. */
import { toHex } from '../../../../protocol/bytes'
import { depositCommitment } from '../../../../protocol/notes/notes'
import {
  type Appended,
  accountAt,
  type Call,
  must,
  mustBeElement,
  mustBeWritable,
  type Placed,
  same,
} from './call'
import { REQUEST, requestOf, returnBond } from './exits'
import { setU64, u64At, wordAt } from './fields'
import type { Batch } from './settle'
import { MINT_RECORD, mintRecordOf, moveTokens, mustBeVaultToken, payoutOutcome, tokensIn } from './tokens'

const FIXED_ACCOUNTS = 5
const [WITHDRAWAL, EXIT] = [0, 1]

type PayoutMint = { record: Uint8Array; mint: Placed; vault: Placed; token_program: Placed }
type Payout = Batch['payouts'][number]

function mintAt(call: Call, at: number): PayoutMint {
  const [record_account, mint, vault, token_program] = [0, 1, 2, 3].map((step) => accountAt(call, at + step))
  mustBeWritable(record_account!)
  const record = mintRecordOf(call, record_account!, mint!.address)
  mustBeVaultToken(vault!, record, token_program!)
  return { record, mint: mint!, vault: vault!, token_program: token_program! }
}

/** The request says what an exit pays, to whom, and who gets the bond. */
function serveRequest(call: Call, at: number, payout: Payout, { mint }: PayoutMint, batch: Batch): void {
  const nullifier = batch.nullifiers[payout.nullifier]
  must(nullifier !== undefined, 'an exit that spends nothing')
  const account = accountAt(call, at + 1)
  const request = requestOf(call, account, nullifier)
  must(same(wordAt(request, REQUEST.mint), mint.address), 'an exit in another mint')
  must(u64At(request, REQUEST.amount) === payout.amount, 'an exit of another amount')
  must(same(wordAt(request, REQUEST.refund_inner), payout.inner), 'an exit with another refund')
  must(
    same(wordAt(request, REQUEST.destination), call.accounts[at]!.address),
    'an exit to another destination',
  )
  returnBond(request, account, accountAt(call, at + 2))
}

function pay(destination: Placed, { amount }: Payout, paid: PayoutMint): boolean {
  const { record, mint, vault, token_program } = paid
  const owed = u64At(record, MINT_RECORD.liabilities)
  must(amount <= owed, 'a payout above the liabilities')
  if (payoutOutcome(destination, vault, mint.address, token_program.address) !== 0) return false
  moveTokens(vault, destination, mint.address, amount)
  setU64(record, MINT_RECORD.liabilities, owed - amount)
  return true
}

/** Answers the refund notes, the first of them at `leaf_index`. */
export function settlePayouts(call: Call, batch: Batch, leaf_index: number): Appended[] {
  const mints = Array.from({ length: batch.mints }, (_, index) => mintAt(call, FIXED_ACCOUNTS + 4 * index))
  must(new Set(mints.map(({ mint }) => toHex(mint.address))).size === mints.length, 'one mint twice')
  const refunds: Appended[] = []
  let at = FIXED_ACCOUNTS + 4 * mints.length
  for (const payout of batch.payouts) {
    must(
      payout.kind === EXIT || (payout.kind === WITHDRAWAL && payout.nullifier === 0),
      'a payout of no kind',
    )
    must(payout.amount > 0n, 'a payout of nothing')
    mustBeElement(payout.inner)
    const paid = mints[payout.mint]
    must(paid !== undefined, 'a payout in no mint')
    if (payout.kind === EXIT) serveRequest(call, at, payout, paid, batch)
    if (!pay(accountAt(call, at), payout, paid)) {
      const made_of = { mint: paid.mint.address, amount: payout.amount, inner: payout.inner }
      const commitment = depositCommitment({ ...made_of, leaf_index: leaf_index + refunds.length })
      refunds.push({ commitment, made_of })
    }
    at += payout.kind === EXIT ? 3 : 1
  }
  must(call.accounts.length === at, 'another number of accounts')
  for (const { record, vault } of mints)
    must(tokensIn(vault.state) >= u64At(record, MINT_RECORD.liabilities), 'the vault owes more than it has')
  return refunds
}
