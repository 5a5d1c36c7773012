/** Runs the trading verbs of `tacit`: each opens a session, does one thing, and prints it as lines or as JSON. */
import type { AccountEvent, Fill, Instrument, Order } from '../../protocol/wire/trading'
import type { Session } from '../session/session'
import type { Outcome } from '../session/settle'
import { formatAmount, formatPrice, parseAmount } from '../session/units'
import { InputFault, UsageFault } from './command'
import { CODES, type TradeOptions, tradeOptions, withSession } from './trader_session'
import { printNotes } from './wallet_commands'

type Verb = {
  /** Words after the verb, and its own options. */
  form: string
  says: string
  example: string
  words: number
  run(options: TradeOptions): Promise<number>
}

export const TRADE_VERBS: Readonly<Record<string, Verb>> = {
  place: {
    form: 'SYMBOL buy|sell AMOUNT @ PRICE [--ioc | --fok] [--min-fill AMOUNT] [--expires SLOTS] [--no-merge]',
    says: 'places an order; amounts in base tokens, the price in quote tokens per base token, both exact',
    example: 'tacit place SOL-USDC buy 1.5 @ 149.25',
    words: 6,
    run: place,
  },
  modify: {
    form: 'ORDER AMOUNT @ PRICE [--expires SLOTS]',
    says: 'replaces an open order of this wallet on the note that backs it, both or neither',
    example: 'tacit modify 6f0c... 1.5 @ 149',
    words: 4,
    run: modify,
  },
  cancel: {
    form: 'ORDER',
    says: 'cancels one order',
    example: 'tacit cancel 6f0c...',
    words: 1,
    run: (options) => send(options, (session) => session.cancel(words(options, 1)[0]!)),
  },
  'cancel-all': {
    form: '[--symbol SYMBOL] [--key K]',
    says: 'cancels all orders of a trading key',
    example: 'tacit cancel-all',
    words: 0,
    run: (options) =>
      send(options, (session) => session.cancelAll(options.count('key', 0), options.optional('symbol'))),
  },
  'dead-man': {
    form: 'SLOTS [--key K]',
    says: 'lets the venue cancel all orders of a key unless this is said again within so many slots; 0 ends it',
    example: 'tacit dead-man 150',
    words: 1,
    run: deadMan,
  },
  settle: {
    form: '',
    says: 'asks for the outcome of every request whose answer was lost, with the same bytes',
    example: 'tacit settle',
    words: 0,
    run: settle,
  },
  orders: {
    form: '[--status STATUS|all] [--symbol SYMBOL]',
    says: 'lists orders of the account, the open ones by default',
    example: 'tacit orders --status all',
    words: 0,
    run: orders,
  },
  order: { form: 'ORDER', says: 'shows one order', example: 'tacit order 6f0c...', words: 1, run: order },
  fills: { form: '[--after SEQ]', says: 'lists fills', example: 'tacit fills', words: 0, run: fills },
  events: {
    form: '[--after SEQ]',
    says: 'lists events of the account, one JSON object per line',
    example: 'tacit events --after 100',
    words: 0,
    run: events,
  },
  watch: {
    form: '[--until ORDER]',
    says: 'prints events as they come; with --until it ends when the order and all its fills are final',
    example: 'tacit watch --until 6f0c...',
    words: 0,
    run: watch,
  },
  notes: {
    form: '[--json]',
    says: 'lists the unspent notes of the wallet, as the venue knows them now',
    example: 'tacit notes',
    words: 0,
    run: notes,
  },
  withdraw: {
    form: 'MINT AMOUNT ACCOUNT [--expires SLOTS] [--no-merge]',
    says: 'pays tokens to a token account; the fee of the mint is added',
    example: 'tacit withdraw EPjF... 25 7xKX...',
    words: 3,
    run: withdraw,
  },
  merge: {
    form: 'NOTE NOTE [NOTE [NOTE]]',
    says: 'merges free notes of one key and mint into one',
    example: 'tacit merge 01ab... 02cd...',
    words: 4,
    run: (options) => reshape(options, options.words, 2),
  },
  split: {
    form: 'NOTE AMOUNT [AMOUNT [AMOUNT]]',
    says: 'splits a free note; the amounts are base units, and what is left is a note of its own',
    example: 'tacit split 01ab... 1000000',
    words: 4,
    run: (options) => reshape(options, options.words.slice(0, 1), 1, options.words.slice(1)),
  },
}

const COMMON = `every verb takes --url, --policy, --collateral, --manifest, --login, --account, --wallet, --password-file and --data, or reads
them from tacit.json ('tacit init'), or finds the venue of this machine in ./data; --json prints one JSON value`

/** Help of one verb. */
export function helpOf(name: string): string | undefined {
  const verb = Object.hasOwn(TRADE_VERBS, name) ? TRADE_VERBS[name] : undefined
  if (verb === undefined) return undefined
  const { form, says, example } = verb
  return [`usage: tacit ${name} ${form}`, `  ${says}`, `  for example: ${example}`, COMMON, CODES].join('\n')
}
export const TRADE_USAGE = [
  ...Object.entries(TRADE_VERBS).map(
    ([name, { form, says }]) => `       tacit ${name} ${form}\n         ${says}`,
  ),
  COMMON,
].join('\n')

/** @returns the exit code */
export function runTrade(name: string, args: string[]): Promise<number> {
  const verb = TRADE_VERBS[name]!
  return verb.run(tradeOptions(args, verb.words))
}

function words(options: TradeOptions, least: number): readonly string[] {
  if (options.words.length < least) throw new UsageFault()
  return options.words
}

/** Prints the value as JSON, or else its lines. */
function print(options: TradeOptions, value: unknown, lines: () => string[]): void {
  if (options.flag('json')) console.log(JSON.stringify(value))
  else for (const line of lines()) console.log(line)
}

/** Sends one request and prints its outcome. @returns the exit code */
async function send(options: TradeOptions, call: (session: Session) => Promise<Outcome>): Promise<number> {
  const outcome = await withSession(options, call)
  return report(options, outcome)
}

function report(options: TradeOptions, outcome: Outcome): number {
  if (outcome.status === 'accepted') {
    const { id, receipt } = outcome
    print(options, outcome, () => [
      `accepted  ${id}`,
      `receipt   ${receipt === undefined ? 'none' : `seq ${receipt.seq}, verified`}`,
    ])
    return 0
  }
  if (outcome.status === 'refused') {
    const { problem } = outcome
    print(options, outcome, () => [`refused   ${problem.code}: ${problem.message}`])
    return 1
  }
  const { status, id, cause } = outcome
  print(options, { status, id, cause: String(cause) }, () => [
    `unknown   ${id}: ${cause}`,
    "it is kept in the wallet: 'tacit settle' asks again and never places it twice",
  ])
  return 2
}

async function place(options: TradeOptions): Promise<number> {
  const [symbol, side, amount, at, price] = words(options, 5)
  if (at !== '@' || (side !== 'buy' && side !== 'sell') || options.words.length > 5) throw new UsageFault()
  if (options.flag('ioc') && options.flag('fok')) throw new UsageFault('--ioc and --fok exclude each other')
  const type = options.flag('ioc') ? 'ioc' : options.flag('fok') ? 'fok' : 'limit'
  const min_fill = options.optional('min-fill')
  const terms = { symbol: symbol!, side, type, amount: amount!, price: price!, ...life(options) } as const
  const order = min_fill === undefined ? terms : { ...terms, min_fill }
  return send(options, (session) => session.place(order, { merge: !options.flag('no-merge') }))
}

const life = (options: TradeOptions): { life_slots?: number } =>
  options.optional('expires') === undefined ? {} : { life_slots: options.count('expires', 0) }

async function modify(options: TradeOptions): Promise<number> {
  const [order_id, amount, at, price] = words(options, 4)
  if (at !== '@') throw new UsageFault()
  return send(options, async (session) => {
    const known = session.wallet.order(order_id!)
    if (known === undefined) throw new InputFault("the wallet has no such order: 'tacit orders' lists them")
    const { symbol, side } = known
    return session.modify(order_id!, { symbol, side, amount: amount!, price: price!, ...life(options) })
  })
}

async function deadMan(options: TradeOptions): Promise<number> {
  const [slots] = words(options, 1)
  if (!/^(0|[1-9][0-9]{0,8})$/.test(slots!)) throw new UsageFault('SLOTS is a whole number')
  return send(options, (session) => session.deadMan(Number(slots), options.count('key', 0)))
}

async function settle(options: TradeOptions): Promise<number> {
  return withSession(options, async (session) => {
    let code = 0
    for (const { id } of [...session.open_requests])
      code = Math.max(code, report(options, await session.settle(id)))
    if (!options.flag('json') && code === 0) console.log('no request is open')
    return code
  })
}

async function withdraw(options: TradeOptions): Promise<number> {
  const [mint, amount, destination] = words(options, 3)
  const to = { mint: mint!, amount: amount!, destination: destination!, ...life(options) }
  return send(options, (session) => session.withdraw(to, { merge: !options.flag('no-merge') }))
}

async function reshape(
  options: TradeOptions,
  named: readonly string[],
  least: number,
  into: readonly string[] = [],
): Promise<number> {
  words(options, 2)
  if (named.length < least) throw new UsageFault()
  return send(options, async (session) => {
    const notes = named.map((commitment) => {
      const note = session.wallet.note(commitment)
      if (note === undefined) throw new InputFault("the wallet has no such note: 'tacit notes' lists them")
      return note
    })
    const sum = notes.reduce((total, { amount }) => total + BigInt(amount), 0n)
    const amounts = into.map((text) => parseAmount(text, 0))
    const rest = amounts.reduce((left, amount) => left - amount, sum)
    if (rest < 0n) throw new InputFault(`the note holds ${sum} base units`)
    return session.reshape(notes, rest === 0n ? amounts : [...amounts, rest])
  })
}

// Reading.

type Units = Map<string, Instrument>
const unitsOf = async (session: Session): Promise<Units> =>
  new Map((await session.client.instruments()).map((one) => [one.symbol, one]))

function orderLine(one: Order, units: Units): string {
  const of = units.get(one.symbol)!
  const amount = (text: string) => formatAmount(BigInt(text), of.base_decimals)
  const price = formatPrice(of, BigInt(one.price_limit))
  const left = `${amount(one.remaining_amount)} of ${amount(one.amount)}`
  return `${one.order_id}  ${one.symbol} ${one.side} ${left} @ ${price}  ${one.type}  ${one.status}`
}

async function orders(options: TradeOptions): Promise<number> {
  const status = options.text('status', 'open')
  const symbol = options.optional('symbol')
  return withSession(options, async (session) => {
    const filter = {
      ...(status === 'all' ? {} : { status: status as Order['status'] }),
      ...(symbol === undefined ? {} : { symbol }),
      limit: 100,
    }
    const { items } = await session.client.orders(filter)
    const units = await unitsOf(session)
    print(options, items, () =>
      items.length === 0 ? ['no orders'] : items.map((one) => orderLine(one, units)),
    )
    return 0
  })
}

async function order(options: TradeOptions): Promise<number> {
  const [order_id] = words(options, 1)
  return withSession(options, async (session) => {
    const shown = await session.client.order(order_id!)
    const units = await unitsOf(session)
    print(options, shown, () => [orderLine(shown, units)])
    return 0
  })
}

const after = (options: TradeOptions): { after?: number; limit: number } =>
  options.optional('after') === undefined
    ? { limit: 100 }
    : { after: options.count('after', 0, 15), limit: 100 }

async function fills(options: TradeOptions): Promise<number> {
  return withSession(options, async (session) => {
    const { items } = await session.client.fills(after(options))
    const units = await unitsOf(session)
    print(options, items, () =>
      items.length === 0 ? ['no fills'] : items.map((one) => fillLine(one, units)),
    )
    return 0
  })
}

function fillLine(fill: Fill, units: Units): string {
  const of = units.get(fill.symbol)!
  const amount = formatAmount(BigInt(fill.amount), of.base_decimals)
  const fee = formatAmount(BigInt(fill.fee), of.quote_decimals)
  const price = formatPrice(of, BigInt(fill.price))
  return `${fill.order_id}  ${fill.symbol} ${fill.side} ${amount} @ ${price}, fee ${fee}  ${fill.stage}`
}

async function notes(options: TradeOptions): Promise<number> {
  return withSession(options, async ({ wallet }) => {
    const unspent = wallet.state.notes.filter(({ state }) => state !== 'spent')
    if (options.flag('json')) console.log(JSON.stringify(unspent))
    else printNotes(wallet, false)
    return 0
  })
}

async function events(options: TradeOptions): Promise<number> {
  return withSession(options, async (session) => {
    const { items } = await session.client.events({ after: 0, ...after(options) })
    for (const event of items) console.log(JSON.stringify(event))
    return 0
  })
}

async function watch(options: TradeOptions): Promise<number> {
  const until = options.optional('until')
  const show = ({ seq, kind, data }: AccountEvent): void => {
    console.log(options.flag('json') ? JSON.stringify({ seq, kind, data }) : `${seq}  ${kind}`)
  }
  return withSession(
    options,
    async (session) => {
      for (;;) {
        const { seq } = session.wallet.state
        if (until !== undefined && isFinal(await session.client.order(until))) return 0
        await session.until(({ state }) => state.seq > seq || undefined)
      }
    },
    show,
  )
}

const isFinal = ({ status, fills }: Order): boolean =>
  status !== 'accepted' &&
  status !== 'partially_filled' &&
  fills.every(({ stage }) => stage === 'finalized' || stage === 'voided')
