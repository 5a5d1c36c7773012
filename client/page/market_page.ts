/** Runs the market page: shows public reads unchanged, and again every few seconds. */
import type { InstrumentView, ServerTime, SystemStatus, Transparency } from '../../protocol/wire/public'
import { MARKET_CALL_MS } from '../limits'
import { formatAmount, formatPrice } from '../session/units'
import {
  barChart,
  byId,
  element,
  lineChart,
  messageOf,
  type Point,
  say,
  short,
  table,
  tokenName,
  tokensOf,
} from './element'
import { type GatewayVenue, openGateway, pageDefaults } from './gateway'

const POLL_MS = 4_000
const POINTS_MAX = 60
const BPS_PER_PERCENT = 100

const status = byId('status')
const lags: Point[] = []
const held: Point[] = []
const waiting: Point[] = []
let venue: GatewayVenue | undefined

async function read<T>(path: string): Promise<T> {
  const answer = await venue!.fetch(path, { signal: AbortSignal.timeout(MARKET_CALL_MS) })
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`)
  return (await answer.json()) as T
}

type Shown = {
  state: SystemStatus
  time: ServerTime
  instruments: InstrumentView[]
  transparency: Transparency
}

async function readAll(): Promise<Shown> {
  venue ??= await openGateway(pageDefaults()?.url ?? location.origin)
  const [state, time, listed, transparency] = await Promise.all([
    read<SystemStatus>('/system/status'),
    read<ServerTime>('/time'),
    read<{ symbol: string }[]>('/instruments'),
    read<Transparency>('/transparency'),
  ])
  const instruments = await Promise.all(
    listed.map(({ symbol }) => read<InstrumentView>(`/instruments/${encodeURIComponent(symbol)}`)),
  )
  return { state, time, instruments, transparency }
}

const show = (id: string, ...nodes: (Node | string)[]): void => byId(id).replaceChildren(...nodes)
const timeOf = (unix_ms: number): string => new Date(unix_ms).toISOString().slice(11, 19)
const dateOf = (unix_s: number): string =>
  `${new Date(unix_s * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`

function keep(series: Point[], point: Point): void {
  series.push(point)
  if (series.length > POINTS_MAX) series.shift()
}

function showState({ state, time, transparency }: Shown): void {
  const { batches, reading } = transparency
  const label = timeOf(time.unix_ms)
  keep(lags, { label, value: BigInt(state.chain.lag_ms), text: `${state.chain.lag_ms} ms` })
  const { length } = transparency.payout_queue
  keep(waiting, { label, value: BigInt(length), text: `${length} payouts` })
  keep(held, { label, value: BigInt(batches.matched), text: `${batches.matched} auctions` })
  show(
    'state',
    table(
      'Now',
      ['Trading', 'Settlement', 'Enclave', 'Slot', 'Chain is behind by'],
      [[state.matching, state.settlement, state.enclave, String(time.slot), `${state.chain.lag_ms} ms`]],
    ),
    ...(state.reasons.length === 0 ? [] : [element('p', 'fault', state.reasons.join('; '))]),
    ...(reading.stale
      ? [
          element(
            'p',
            'fault',
            `The venue read the chain ${reading.age_ms} ms ago, as of slot ${reading.slot}: reserves, payouts, builds and announced changes may be others by now.`,
          ),
        ]
      : []),
    element('p', 'help', 'Since this page was opened:'),
    element(
      'div',
      'charts',
      lineChart('Chain is behind by', lags),
      lineChart('Auctions held', held),
      lineChart('Payouts waiting', waiting),
    ),
  )
}

function showInstruments({ instruments, transparency }: Shown): void {
  const rows = instruments.map((one) => {
    const { reference, symbol, base_decimals, fee_bps, collar_bps, lot_size, tick_size } = one
    const { base, quote } = tokensOf(symbol)
    const price = reference === null ? 'none yet' : `${formatPrice(one, BigInt(reference.price))} ${quote}`
    return [
      symbol,
      one.status,
      price,
      reference === null ? '–' : dateOf(reference.until_unix_s),
      `${formatPrice(one, BigInt(tick_size))} ${quote}`,
      `${formatAmount(BigInt(lot_size), base_decimals)} ${base}`,
      `${fee_bps / BPS_PER_PERCENT} %`,
      `${collar_bps / BPS_PER_PERCENT} %`,
    ]
  })
  const heads = ['Symbol', 'Status', 'Reference', 'Of the hour until', 'Tick', 'Lot', 'Fee', 'Collar']
  show('instruments', table('Prices are for one token of the first kind', heads, rows))
  show('days', ...instruments.map((one) => showDays(one, transparency)))
}

function showDays({ symbol, base_decimals }: InstrumentView, { statistics }: Transparency): Node {
  const bars = statistics.days
    .filter((day) => day.symbol === symbol)
    .map(({ day, volume }) => ({
      label: day.slice(5),
      value: volume === null ? null : BigInt(volume),
      text: volume === null ? 'too few' : formatAmount(BigInt(volume), base_decimals),
    }))
  if (bars.length === 0)
    return element('p', 'help', `${symbol}: no day is published yet; a day appears once it is over.`)
  return element('div', 'charts', barChart(`${symbol}: volume by UTC day, in ${tokensOf(symbol).base}`, bars))
}

function showReserves({ transparency, instruments }: Shown): void {
  const amount = (units: string, decimals: number) => formatAmount(BigInt(units), decimals)
  const charts = transparency.mints.map(({ mint, decimals, vault_balance, outstanding }) =>
    barChart(tokenName(mint, instruments), [
      { label: 'in the vault', value: BigInt(vault_balance), text: amount(vault_balance, decimals) },
      { label: 'owed', value: BigInt(outstanding), text: amount(outstanding, decimals), series: 1 },
    ]),
  )
  const rows = transparency.mints.map((one) => {
    const missing = BigInt(one.outstanding) - BigInt(one.vault_balance)
    return [
      element('span', '', `${tokenName(one.mint, instruments)} `, short(one.mint)),
      amount(one.vault_balance, one.decimals),
      amount(one.outstanding, one.decimals),
      missing > 0n ? `✕ ${amount(String(missing), one.decimals)}` : 'none',
      amount(one.withdraw_fee, one.decimals),
      one.stale ? '– not refreshed' : `slot ${one.slot}`,
    ]
  })
  const heads = ['Token', 'In the vault', 'Owed', 'Shortage', 'Withdrawal fee', 'As of']
  show('reserves', element('div', 'charts', ...charts), table('In whole tokens', heads, rows))
}

function showSettlement({ transparency }: Shown): void {
  const { batches, settlement, payout_queue, exits } = transparency
  const latencies = settlement.finality.map(({ batch, ms }) => ({
    label: `batch ${batch}`,
    value: BigInt(ms),
    text: `${ms} ms`,
  }))
  show(
    'settlement',
    table(
      'Counted since the venue began',
      [
        'Epoch',
        'Auctions',
        'Held',
        'Void',
        'Last batch',
        'Payouts waiting',
        'Oldest since slot',
        'Exits open',
      ],
      [
        [
          String(settlement.epoch),
          String(batches.closed),
          String(batches.matched),
          String(batches.void),
          String(settlement.last_batch),
          String(payout_queue.length),
          payout_queue.oldest_slot === null ? '–' : String(payout_queue.oldest_slot),
          String(exits.length),
        ],
      ],
    ),
    element('div', 'charts', lineChart('Signature to finality, by batch', latencies)),
  )
}

/** Each epoch and the slots that it lasted; the present one lasts until now. */
function epochBars({ transparency, time }: Shown): HTMLElement {
  const { epochs, builds } = transparency
  const bars = epochs.map(({ epoch, from_slot }, at) => {
    const slots = BigInt((epochs[at + 1]?.from_slot ?? Math.max(time.slot, from_slot)) - from_slot)
    const build = builds.findLastIndex((one) => one.from_slot <= from_slot)
    const series = build % 2 === 1 ? 1 : 0
    return { label: `epoch ${epoch}`, value: slots, text: `${slots} slots`, series } as const
  })
  return barChart('Slots per epoch, coloured by build', bars)
}

function showBuilds(shown: Shown): void {
  const { transparency } = shown
  const builds = transparency.builds.map(({ compose_hash, tacit_version, from_slot }) => [
    tacit_version,
    short(compose_hash),
    String(from_slot),
  ])
  const outages = transparency.outages.map(({ outage_at_s, outage_extra_s }) => [
    dateOf(outage_at_s),
    `${outage_extra_s} s`,
  ])
  const pending = transparency.admin.pending.map(({ action, value, effective_unix_s }) => [
    action,
    short(value),
    dateOf(effective_unix_s),
  ])
  show(
    'builds',
    element('div', 'charts', epochBars(shown)),
    table('Builds', ['Version', 'Build', 'From slot'], builds),
    table('Announced changes', ['Change', 'Value', 'Takes effect'], pending),
    table('Outages declared', ['Declared', 'Deadlines moved by'], outages),
  )
}

async function update(): Promise<void> {
  try {
    const shown = await readAll()
    for (const part of [showState, showInstruments, showReserves, showSettlement, showBuilds]) part(shown)
    say(
      status,
      `${venue!.base_url}, read at ${timeOf(Date.now())} UTC. Not verified: the Verify page does that.`,
    )
  } catch (error) {
    // The venue may be back with another key; public figures are shown unverified either way.
    venue = undefined
    say(
      status,
      `Not current, the venue did not answer as it should: ${messageOf(error)}. It is asked again.`,
      true,
    )
  }
  setTimeout(() => void update(), POLL_MS)
}

void update()
