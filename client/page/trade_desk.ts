/** The desk of an open session: balances, forms, own orders and fills as events report them. */
import type {
  AccountEvent,
  Fill,
  InstrumentView,
  Order,
  OrderType,
  Page,
  Side,
  Statistics,
} from '../../protocol/wire/trading'
import { openChainAccess } from '../chain/chain_access'
import { airdrop, deposit, mintTo, searchDeposits } from '../chain/deposit'
import { ownAccount, tokenBalance } from '../chain/read_vault'
import { DEPOSIT_SEARCH_MS, DEPOSIT_SEARCH_POLL_MS, FAUCET_POLL_MS } from '../limits'
import type { Session } from '../session/session'
import type { Outcome } from '../session/settle'
import { formatAmount, formatPrice, parseAmount, parseOrderAmount, parsePrice } from '../session/units'
import { collateralOf } from '../wallet/prepare'
import type { BrowserStore } from './browser_store'
import {
  barChart,
  byId,
  element,
  lineChart,
  messageOf,
  say,
  short,
  table,
  tokenName,
  tokensOf,
} from './element'
import type { PageDefaults } from './gateway'

const FEE_LAMPORTS = 1_000_000_000n
const DRAW_MS = 50
const PAGE_LIMIT = 200
const ROWS_MAX = 50
const FINAL: readonly string[] = ['filled', 'cancelled', 'expired', 'rejected', 'replaced']

const text = (id: string): string => byId<HTMLInputElement>(id).value.trim()
type Mint = { mint: string; decimals: number; name: string }

export class Desk {
  private session!: Session
  private instruments: InstrumentView[] = []
  private mints: Mint[] = []
  private readonly orders = new Map<string, Order>()
  private readonly fills = new Map<string, Fill>()
  private drawing = false

  constructor(
    private readonly store: BrowserStore,
    private readonly defaults: PageDefaults,
    private readonly program_id: string,
  ) {}

  /** Listens to its forms once all is shown. @throws the errors of the venue's calls; nothing listens then */
  async open(session: Session, verdict: string): Promise<void> {
    this.session = session
    const { client } = session
    // Lists begin with the oldest: the page needs the end of one, and every open order.
    const newest = { after: Math.max(session.wallet.state.seq - PAGE_LIMIT, 0), limit: PAGE_LIMIT }
    const [listed, { mints }, orders, fills] = await Promise.all([
      client.instruments(),
      client.transparency(),
      client.orders(newest),
      client.fills(newest),
    ])
    for (let after: number | null = 0; after !== null; ) {
      const open: Page<Order> = await client.orders({ status: 'open', after, limit: PAGE_LIMIT })
      orders.items.push(...open.items)
      after = open.next_after
    }
    this.instruments = await Promise.all(listed.map(({ symbol }) => client.instrument(symbol)))
    this.mints = mints.map(({ mint, decimals }) => ({
      mint,
      decimals,
      name: tokenName(mint, this.instruments),
    }))
    for (const order of orders.items) if (!this.orders.has(order.order_id)) this.keepOrder(order)
    for (const fill of fills.items) if (!this.fills.has(keyOf(fill))) this.fills.set(keyOf(fill), fill)
    this.fillForms()
    this.draw()
    await this.drawHours()
    this.listen()
    byId('verdict').textContent = verdict
    byId('desk').hidden = false
    for (const { id } of session.open_requests) void this.goOn(id)
    this.searchDeposits().catch((error: unknown) => say(byId('deposit-status'), messageOf(error), true))
  }

  /** A request whose answer the page before did not see. */
  private async goOn(id: string): Promise<void> {
    const at = byId('order-status')
    await this.session.settle(id).then(
      (outcome) => say(at, `An earlier request: ${told(outcome)}`),
      (error: unknown) => say(at, `An earlier request: ${messageOf(error)}`, true),
    )
    this.draw()
  }

  /** Deposits that the page before sent and did not see in the vault; one that is under way takes a while to be final. */
  private async searchDeposits(): Promise<void> {
    const { wallet, payer_seed } = this.store
    const chain = await openChainAccess(this.defaults.rpc_url, payer_seed)
    const deadline = performance.now() + DEPOSIT_SEARCH_MS
    const look = searchDeposits(chain, wallet, this.program_id)
    for (let is_first = true; is_first || performance.now() < deadline; is_first = false) {
      if (!is_first) await wait(DEPOSIT_SEARCH_POLL_MS)
      // A node that fails is asked again.
      const found = await look().catch(() => [])
      if (found === undefined) return
      if (found.length === 0) continue
      this.store.save()
      const { mint, amount } = found[0]!
      const { decimals, name } = this.mintOf(mint)
      say(
        byId('deposit-status'),
        `${formatAmount(BigInt(amount), decimals)} ${name} of an earlier deposit are in the vault.`,
      )
      this.draw()
    }
  }

  take({ kind, data }: AccountEvent): void {
    if (kind.startsWith('order.') && 'status' in data) this.keepOrder(data as Order)
    if (kind.startsWith('fill.')) this.fills.set(keyOf(data as Fill), data as Fill)
    this.drawSoon()
  }
  connection(connected: boolean): void {
    const at = byId('connection')
    at.hidden = connected
    if (connected) at.textContent = ''
    else if (at.textContent === '')
      at.textContent = `No connection to the venue: what is shown is of ${new Date().toISOString().slice(11, 19)} UTC or before. It is tried again.`
  }
  ended(reason: unknown): void {
    const why = reason instanceof Error ? reason.message : 'for a reason it did not give'
    byId('verdict').className = 'fault'
    byId('verdict').textContent = `The session ended: ${why}. Load the page again.`
  }

  private keepOrder(order: Order): void {
    this.orders.set(order.order_id, order)
  }
  private instrumentOf(symbol: string): InstrumentView {
    const found = this.instruments.find((one) => one.symbol === symbol)
    if (found === undefined) throw new RangeError('there is no such instrument')
    return found
  }
  private mintOf(mint: string): Mint {
    const found = this.mints.find((one) => one.mint === mint)
    if (found === undefined) throw new RangeError('the venue does not have this token')
    return found
  }

  // Forms.

  private fillForms(): void {
    const option = (value: string, shown: string) => Object.assign(element('option', '', shown), { value })
    for (const id of ['deposit-mint', 'withdraw-mint'])
      byId(id).replaceChildren(...this.mints.map(({ mint, name }) => option(mint, name)))
    byId('symbol').replaceChildren(...this.instruments.map(({ symbol }) => option(symbol, symbol)))
    this.nameUnits()
  }

  private listen(): void {
    this.onSubmit('deposit', () => this.deposit())
    this.onSubmit('order', () => this.place())
    this.onSubmit('withdraw', () => this.withdraw())
    byId('order').addEventListener('input', () => this.preview())
    byId('symbol').addEventListener('change', () => {
      this.nameUnits()
      this.drawHours().catch((error: unknown) => say(byId('hours'), messageOf(error), true))
    })
    byId('save-backup').addEventListener('click', () => this.saveBackup())
  }

  private nameUnits(): void {
    const { base, quote } = tokensOf(text('symbol'))
    byId('amount-unit').textContent = `in ${base}`
    byId('price-unit').textContent = `in ${quote}`
  }

  /** One submission at a time; its outcome or failure is shown next to the form. */
  private onSubmit(id: string, run: () => Promise<string>): void {
    const form = byId<HTMLFormElement>(id)
    const status = byId(`${id}-status`)
    const button = form.querySelector('button')!
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      button.disabled = true
      say(status, 'Under way …')
      run()
        .then(
          (done) => say(status, done),
          (error: unknown) => say(status, messageOf(error), true),
        )
        .finally(() => {
          button.disabled = false
          this.draw()
        })
    })
  }

  private async deposit(): Promise<string> {
    const { mint, decimals, name } = this.mintOf(text('deposit-mint'))
    const amount = parseAmount(text('deposit-amount'), decimals)
    const { wallet, payer_seed } = this.store
    const chain = await openChainAccess(this.defaults.rpc_url, payer_seed)
    if (this.defaults.is_laptop) {
      const account = ownAccount(chain, mint).bytes
      await airdrop(chain, FEE_LAMPORTS)
      await mintTo(chain, mint, amount)
      while ((await tokenBalance(chain, account)) < amount) await wait(FAUCET_POLL_MS)
    }
    const terms = { program_id: this.program_id, mint, amount, key_index: 0, keep: () => this.store.save() }
    await deposit(chain, wallet, terms).finally(() => this.store.save())
    return `${formatAmount(amount, decimals)} ${name} are in the vault.`
  }

  private orderTerms() {
    const instrument = this.instrumentOf(text('symbol'))
    const amount = parseOrderAmount(instrument, text('amount'))
    const price_limit = parsePrice(instrument, text('price'))
    const [side, type] = [text('side') as Side, text('type') as OrderType]
    return { instrument, side, type, amount, price_limit, expiry_slot: 0 }
  }
  private preview(): void {
    byId('preview').textContent = this.previewText()
  }
  private previewText(): string {
    if (text('amount') === '' || text('price') === '') return ''
    try {
      const terms = this.orderTerms()
      const { mint, amount } = collateralOf(terms)
      const { decimals, name } = this.mintOf(mint)
      const { fee_bps, collar_bps } = terms.instrument
      const note = this.session.wallet.noteFor(mint, amount) === undefined ? ' No single note covers it.' : ''
      const collar = `The auction's price stays within ${collar_bps / 100} % of the reference.`
      const fee = terms.side === 'buy' ? 'included' : 'taken from the proceeds'
      return `Backed by ${formatAmount(amount, decimals)} ${name}, a fee of at most ${fee_bps / 100} % ${fee}. ${collar}${note}`
    } catch (error) {
      return (error as Error).message
    }
  }
  private async place(): Promise<string> {
    const { instrument, side, type, amount, price_limit } = this.orderTerms()
    const { symbol } = instrument
    return told(await this.session.place({ symbol, side, type, amount, price: price_limit }))
  }
  private async withdraw(): Promise<string> {
    const { mint, decimals } = this.mintOf(text('withdraw-mint'))
    const amount = parseAmount(text('withdraw-amount'), decimals)
    return told(await this.session.withdraw({ mint, destination: text('destination'), amount }))
  }
  private saveBackup(): void {
    const file = new Blob([this.store.text], { type: 'application/json' })
    const link = Object.assign(element('a', ''), {
      href: URL.createObjectURL(file),
      download: 'tacit-wallet.json',
    })
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 0)
  }

  // Tables.

  /** Many events draw once. A page in the background draws, too: no animation frame comes there. */
  private drawSoon(): void {
    if (this.drawing) return
    this.drawing = true
    setTimeout(() => {
      this.drawing = false
      if (this.mints.length > 0) this.draw()
    }, DRAW_MS)
  }
  private draw(): void {
    byId('balance').replaceChildren(this.balanceTable())
    byId('orders').replaceChildren(this.ordersTable())
    byId('fills').replaceChildren(this.fillsTable())
  }
  private balanceTable(): HTMLElement {
    const rows = this.mints.map(({ mint, decimals, name }) => {
      const notes = this.session.wallet.state.notes.filter(
        (note) => note.mint === mint && note.state !== 'spent',
      )
      const sumOf = (state: string) =>
        notes.filter((note) => note.state === state).reduce((sum, note) => sum + BigInt(note.amount), 0n)
      return [
        name,
        formatAmount(sumOf('free'), decimals),
        formatAmount(sumOf('pending'), decimals),
        String(notes.length),
      ]
    })
    return table('In whole tokens', ['Token', 'Free', 'In use', 'Notes'], rows)
  }
  private ordersTable(): HTMLElement {
    const isOpen = ({ status }: Order) => !FINAL.includes(status)
    const all = [...this.orders.values()].toSorted((a, b) => b.seq - a.seq)
    // An open order is always shown: it can be cancelled.
    const open = all.filter(isOpen)
    const ended = all.filter((order) => !isOpen(order)).slice(0, Math.max(ROWS_MAX - open.length, 0))
    const rows = [...open, ...ended].map((order) => {
      const instrument = this.instrumentOf(order.symbol)
      const { base, quote } = tokensOf(order.symbol)
      const amount = (units: string) => `${formatAmount(BigInt(units), instrument.base_decimals)} ${base}`
      const price = `${formatPrice(instrument, BigInt(order.price_limit))} ${quote}`
      const words = [short(order.order_id), order.symbol, `${order.side} ${order.type}`]
      return [
        ...words,
        amount(order.amount),
        price,
        amount(order.filled_amount),
        order.status,
        this.cancelButton(order),
      ]
    })
    return table(
      'Open ones first, then the newest',
      ['Order', 'Instrument', 'Kind', 'Amount', 'Price', 'Filled', 'Status', 'Cancel'],
      rows,
      'No order yet.',
    )
  }
  private cancelButton({ order_id, status, side, symbol }: Order): Node | string {
    if (FINAL.includes(status)) return '–'
    const button = element('button', 'small', 'Cancel')
    button.type = 'button'
    button.setAttribute('aria-label', `cancel the order to ${side} ${symbol}, ${order_id.slice(0, 8)}`)
    button.addEventListener('click', () => {
      button.disabled = true
      const at = byId('order-status')
      this.session
        .cancel(order_id)
        .then((outcome) => say(at, told(outcome)))
        .catch((error: Error) => say(at, error.message, true))
    })
    return button
  }
  private fillsTable(): HTMLElement {
    const newest = [...this.fills.values()].toSorted((a, b) => b.seq - a.seq).slice(0, ROWS_MAX)
    const rows = newest.map((fill) => {
      const instrument = this.instrumentOf(fill.symbol)
      const { base_decimals, quote_decimals } = instrument
      const { base, quote } = tokensOf(fill.symbol)
      return [
        short(fill.order_id),
        fill.symbol,
        `${fill.side} ${formatAmount(BigInt(fill.amount), base_decimals)} ${base}`,
        `${formatPrice(instrument, BigInt(fill.price))} ${quote}`,
        `${formatAmount(BigInt(fill.fee), quote_decimals)} ${quote}`,
        fill.stage,
        fill.signature === undefined ? '–' : short(fill.signature),
      ]
    })
    const heads = ['Order', 'Instrument', 'Fill', 'Price', 'Fee', 'Settlement', 'Transaction']
    return table('Newest first', heads, rows, 'No fill yet.')
  }

  private async drawHours(): Promise<void> {
    const instrument = this.instrumentOf(text('symbol'))
    const { symbol } = instrument
    const after = Math.floor(Date.now() / 1000) - PAGE_LIMIT * 3_600
    const page = { after: Math.max(after, 0), limit: PAGE_LIMIT }
    const { items } = await this.session.client.statistics(symbol, page).catch(() => NO_ROWS)
    const known = items.filter((row) => row.close !== null && row.volume !== null)
    if (known.length === 0)
      return byId('hours').replaceChildren(
        element(
          'p',
          'help',
          `${symbol}: no hour is published yet. An hour is, once it is over and 20 accounts traded in it.`,
        ),
      )
    const label = (start_unix_s: number) =>
      new Date(start_unix_s * 1000).toISOString().slice(5, 16).replace('T', ' ')
    const prices = known.map(({ start_unix_s, close }) => ({
      label: label(start_unix_s),
      value: BigInt(close!),
      text: formatPrice(instrument, BigInt(close!)),
    }))
    const volumes = known.map(({ start_unix_s, volume }) => ({
      label: label(start_unix_s),
      value: BigInt(volume!),
      text: formatAmount(BigInt(volume!), instrument.base_decimals),
    }))
    const charts = [
      lineChart(`${symbol}: last price of each hour`, prices),
      barChart(`${symbol}: volume by hour`, volumes),
    ]
    byId('hours').replaceChildren(element('div', 'charts', ...charts))
  }
}

const NO_ROWS: Pick<Statistics, 'items'> = { items: [] }
const keyOf = ({ order_id, fill_index }: Fill): string => `${order_id}/${fill_index}`
const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

/** @throws Error for a refusal */
function told(outcome: Outcome): string {
  if (outcome.status === 'refused') throw new Error(`${outcome.problem.code}: ${outcome.problem.message}`)
  if (outcome.status === 'unknown')
    return 'The venue has not answered: the request is kept, and goes on when this page is opened again.'
  return `Accepted, ${outcome.receipt === undefined ? 'known by the state of the venue' : 'with a receipt that was verified'}.`
}
