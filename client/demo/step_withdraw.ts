/** A withdrawal leaves a note and arrives in a token account; the rest comes back as a change note. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import type { Withdrawal } from '../../protocol/wire'
import { sendInstructions } from '../chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../chain/token_account'
import { prepareWithdrawal } from '../wallet/prepare_withdrawal'
import type { MintName } from './balances'
import { check, DemoFailed, fact, short, tokens } from './report'
import type { Trader } from './trader'

const LIFE_SLOTS = 3_000

export async function withdrawTokens(trader: Trader, mint: MintName, amount: bigint): Promise<Withdrawal> {
  const note = trader.wallet.noteFor(mint.mint, amount * 2n)
  if (note === undefined) throw new DemoFailed(`${trader.name} has no note to withdraw from`)
  const account = ownAccount(trader.chain, mint.mint)
  const owner = decodeBase58(trader.chain.payer.address, 32)!
  const create = createAssociatedAccount(trader.chain, owner, decodeBase58(mint.mint, 32)!)
  await sendInstructions(trader.chain, [create], 'confirmed')
  const before = await tokenBalance(trader.chain, account.bytes)
  const { slot } = await trader.client.time()
  const request = prepareWithdrawal(trader.wallet, trader.venue, note, {
    destination: account.text,
    amount,
    expiry_slot: slot + LIFE_SLOTS,
  })
  const { withdrawal_id } = await trader.client.withdraw(request)
  trader.save()
  const done = await trader.until('the withdrawal to be final', () => {
    const event = trader.events.find(
      ({ kind, data }) =>
        kind === 'withdrawal.finalized' && (data as Withdrawal).withdrawal_id === withdrawal_id,
    )
    return event?.data as Withdrawal | undefined
  })
  const after = await tokenBalance(trader.chain, account.bytes)
  fact(
    `${trader.name} withdraws ${tokens(amount, mint.decimals)} ${mint.name}`,
    short(String(done.signature)),
  )
  check(after - before === amount, 'the token account received exactly the amount')
  check(fromHex(done.change_commitment ?? '', 32) !== undefined, 'the rest of the note came back as change')
  return done
}
