/** The process that the crash test kills: trades as fast as it can while one snapshot after another is taken. */
import { writeSync } from 'node:fs'
import { LIMITS } from '../../../engine/limits'
import { toHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const LANES = 4
// A snapshot on a busy machine takes as long as a stalled chain.
Object.assign(LIMITS, { stall_min_ms: 600_000 })
const say = (line: string) => writeSync(1, `${line}\n`)

const site = new TestSite()
const open = await site.open({}, process.argv[2]!)
const { genesis_hash, program_id, config_account } = open.chain
const settlement_key = publicKeyOf(site.keys.settlement_seed)
say(`chain ${[genesis_hash, program_id, config_account, settlement_key].map(toHex).join(' ')}`)

const lanes: (() => Promise<never>)[] = []
for (let lane = 0; lane < LANES; lane++) {
  const trader = await Trader.provisioned(open, `trader-${lane}-${process.argv[3]}`)
  const side = lane % 2 === 0 ? 'buy' : 'sell'
  const deposits = Array.from({ length: 4 }, () =>
    trader.deposit(side === 'buy' ? 'quote' : 'base', 2_000_000_000n),
  )
  lanes.push(async () => {
    // Buyers and sellers stay apart, so that the same notes can be reused.
    const price_limit = side === 'buy' ? '99000000' : '101000000'
    for (let at = 0; ; at++) {
      const request = trader.place(deposits[at % deposits.length]!, { side, price_limit })
      const { order_id } = await open.venue.place(trader.account_id, request)
      say(`placed ${order_id}`)
      await open.venue.cancel(trader.account_id, order_id, trader.cancel(order_id))
      say(`cancelled ${order_id}`)
    }
  })
}
await open.chain.finalizeLeaves()

/** Slots go on, so that auctions are held and their records are part of the replay. */
async function snapshots(): Promise<never> {
  for (;;) {
    await open.chain.tick(1)
    await open.engine.snapshotting.now()
    if (open.engine.snapshotting.failures > 0) throw new Error('a snapshot failed')
    say(`snapshot ${open.engine.snapshotting.newest!.seq}`)
  }
}
await Promise.all([snapshots(), ...lanes.map((lane) => lane())])
