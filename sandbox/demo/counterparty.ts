#!/usr/bin/env bun
/**
 * The demo counterparty, which `start` runs with a venue of this machine: an account like any other that keeps one order on
 * each side of SOL-USDC, on test money. Ends with its standard input, which closes when the venue's process ends.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { NoNote, type SessionOrder } from '../../client/index'
import type { SandboxFacts } from '../open_sandbox'
import { depositNote, fund, untilUsable } from './steps'
import { connectAll } from './story'
import { openTrader, type Trader } from './trader'

const SIZE = { symbol: 'SOL-USDC', amount: '100' } as const
const QUOTES: readonly SessionOrder[] = [
  { ...SIZE, side: 'sell', price: '150' },
  { ...SIZE, side: 'buy', price: '149' },
]
const RETRY_MS = 5_000

const rests = ({ wallet }: Trader, { side }: SessionOrder): boolean =>
  wallet.state.orders.some((order) => order.open && order.side === side)

async function quote(trader: Trader, facts: SandboxFacts, order: SessionOrder): Promise<void> {
  const { session } = trader
  try {
    await session.plan(order)
  } catch (error) {
    if (!(error instanceof NoNote)) throw error
    const mint = { mint: error.facts.mint, name: '', decimals: 0 }
    await fund(trader, mint, error.facts.needed)
    await depositNote(trader, facts.program_id, mint, error.facts.needed)
    await untilUsable(trader.client, [trader])
  }
  const { status } = await session.place(order)
  if (status !== 'accepted') await Bun.sleep(RETRY_MS)
}

async function keepQuoting(data_dir: string): Promise<never> {
  const facts = JSON.parse(readFileSync(join(data_dir, 'laptop.json'), 'utf8')) as SandboxFacts
  const folder = join(data_dir, 'counterparty')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const trader = await openTrader(folder, 'counterparty', facts.rpc_url)
  await connectAll(folder, facts, [trader])
  for (;;) {
    for (const order of QUOTES) if (!rests(trader, order)) await quote(trader, facts, order)
    await trader.session.until(() => QUOTES.some((order) => !rests(trader, order)) || undefined)
  }
}

keepQuoting(process.argv[2]!).catch((error: Error) => {
  console.error(`The demo counterparty ended: ${error.message}. The venue goes on without it.`)
  process.exit(1)
})
for await (const _ of Bun.stdin.stream());
process.exit(0)
