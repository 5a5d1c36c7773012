/** Trades once more with a venue that signs v0 transactions, and reads from the validator that it did. */
import { check, fact } from '../../sandbox/demo/report'
import { untilSettled } from '../../sandbox/demo/steps'
import { type Cast, connectAll, type Stage } from '../../sandbox/demo/story'
import { callRpc } from './landed_report'

const SOL = 1_000_000_000n
const PRICE = 150_000_000n
const PACKET_BYTES_MAX = 1_232

export async function settleInPackets(stage: Stage, { ada, bob }: Cast): Promise<void> {
  const facts = await stage.venue_process.start()
  const sol = await connectAll(stage, facts, [ada, bob])
  const buy = await ada.place(sol, { side: 'buy', amount: SOL, price: PRICE })
  const sell = await bob.place(sol, { side: 'sell', amount: SOL, price: PRICE })
  await bob.untilOrder(sell, 'filled')
  const [fill] = await untilSettled(ada, buy, 1)
  const config = { commitment: 'confirmed', encoding: 'base64', maxSupportedTransactionVersion: 1 }
  const found = await callRpc<{ version: number; transaction: [string] }>(facts.rpc_url, 'getTransaction', [
    fill!.signature,
    config,
  ])
  const bytes = Buffer.from(found.transaction[0], 'base64').length
  fact('settled with', `version ${found.version}, ${bytes} bytes`)
  check(found.version === 0 && bytes <= PACKET_BYTES_MAX, 'the batch went out as one packet')
}
