/** The verbs that trade: each opens a session, does one thing, and prints it. */

import { existsSync } from 'node:fs'
import { fromHex } from '../../protocol/bytes'
import { feeUpTo, quoteAmount } from '../../protocol/units'
import type { AccountEvent, Fill, Order } from '../../protocol/wire/trading'
import { FORWARD_ANSWER_MS, STREAM_RETRY_FIRST_MS, STREAM_RETRY_MAX_MS } from '../limits'
import { total } from '../session/notes'
import type { Session } from '../session/session'
import type { SessionOrder } from '../session/session_options'
import type { Outcome } from '../session/settle'
import { formatAmount, formatPrice } from '../session/units'
import type { WalletNote } from '../wallet/wallet'
import { writeWhole } from '../whole_file'
import {
  type Call,
  IN_SESSION,
  mintNamed,
  printNotes,
  readTokens,
  type Tokens,
  unitsIn,
  type Verb,
} from './call'
import { InputFault, readInputText, UsageFault } from './command'

const TERMS = '[--ioc | --fok] [--min-fill AMOUNT] [--expires SLOTS]'
const TERMS_SAY = `--ioc trades in the next batch and cancels the rest, --fok trades there in full
  or not at all, --min-fill is the least that a fill may be, and --expires counts the slots in which the order may trade, 3000
  without it`

export const TRADE_VERBS: Readonly<Record<string, Verb>> = {
  place: {
    ...IN_SESSION,
    form: `SYMBOL buy|sell AMOUNT @ PRICE ${TERMS} [--no-merge] [--dry-run]`,
    says: `places an order; amounts in base tokens, the price in quote tokens per base token, both exact. ${TERMS_SAY}.
  Where no note covers it, several are merged first, unless --no-merge is given`,
    example: 'tacit place SOL-USDC buy 1.5 @ 149.25',
    run: (call) => (call.flag('dry-run') ? check(call) : placeOrder(call)),
  },
  check: {
    ...IN_SESSION,
    form: `SYMBOL buy|sell AMOUNT @ PRICE ${TERMS}`,
    says: `has the venue check an order without placing it, and shows its collateral, its highest fee, and the notes it takes.
  ${TERMS_SAY}`,
    example: 'tacit check SOL-USDC buy 1.5 @ 149.25',
    run: check,
  },
  modify: {
    ...IN_SESSION,
    form: 'ORDER AMOUNT @ PRICE [--expires SLOTS] [--dry-run]',
    says: 'replaces an open order of this wallet on the note that backs it, both or neither',
    example: 'tacit modify ORDER 1 @ 149',
    run: modify,
  },
  cancel: {
    ...IN_SESSION,
    form: 'ORDER [--dry-run]',
    says: 'cancels one order',
    example: 'tacit cancel ORDER',
    run: (call) => cancelling(call, call.words, (session) => session.cancel(call.words[0]!)),
  },
  'cancel-all': {
    ...IN_SESSION,
    form: '[--symbol SYMBOL] [--key K] [--dry-run]',
    says: 'cancels all orders of a trading key',
    example: 'tacit cancel-all',
    run: (call) =>
      cancelling(call, undefined, (session) =>
        session.cancelAll(call.count('key', 0), call.optional('symbol')),
      ),
  },
  'dead-man': {
    ...IN_SESSION,
    form: 'SLOTS [--key K] [--dry-run]',
    says: 'has the venue cancel all orders of a key unless this is said again within so many slots; 0 ends it',
    example: 'tacit dead-man 150',
    run: deadMan,
  },
  settle: {
    ...IN_SESSION,
    form: '',
    says: 'asks for the outcome of every request whose answer was lost, with the same bytes',
    example: 'tacit settle',
    run: settle,
  },
  orders: {
    ...IN_SESSION,
    form: '[--status STATUS|all] [--symbol SYMBOL]',
    says: 'lists orders of the account, the open ones by default',
    example: 'tacit orders --status all',
    run: orders,
  },
  order: { ...IN_SESSION, form: 'ORDER', says: 'shows one order', example: 'tacit order ORDER', run: order },
  fills: {
    ...IN_SESSION,
    form: '[--after SEQ]',
    says: 'lists fills with their settlement stages',
    example: 'tacit fills',
    run: fills,
  },
  events: {
    ...IN_SESSION,
    form: '[--after SEQ]',
    says: 'lists events of the account, one JSON object per line',
    example: 'tacit events --after 1',
    run: events,
  },
  watch: {
    ...IN_SESSION,
    form: '[--until ORDER] [--forward-to URL]',
    says: `prints events as they come; with --until it ends when the order and all its fills are final. --forward-to posts each
  event as JSON, in order and until it is taken (status 2xx), and keeps the seq of the last one in WALLET.forwarded`,
    example: 'tacit watch --until ORDER',
    run: watch,
  },
  notes: {
    ...IN_SESSION,
    form: '[--all]',
    says: 'lists the unspent notes of the wallet, as the venue knows them now; spent ones too with --all',
    example: 'tacit notes',
    run: notes,
  },
  withdraw: {
    ...IN_SESSION,
    form: 'TOKEN AMOUNT ACCOUNT [--expires SLOTS] [--no-merge] [--dry-run]',
    says: 'pays tokens to a token account; the fee of the mint is added. TOKEN is a mint or a name such as USDC',
    example: 'tacit withdraw USDC 25 ACCOUNT',
    run: withdraw,
  },
  merge: {
    ...IN_SESSION,
    form: 'NOTE NOTE [NOTE [NOTE]] [--dry-run]',
    says: 'merges free notes of one key and mint into one',
    example: 'tacit merge NOTE NOTE',
    run: (call) => reshape(call, call.words),
  },
  split: {
    ...IN_SESSION,
    form: 'NOTE AMOUNT [AMOUNT [AMOUNT]] [--dry-run]',
    says: 'splits a free note; the amounts are base units, and the rest becomes another note',
    example: 'tacit split NOTE 1000000',
    run: (call) => reshape(call, call.words.slice(0, 1), call.words.slice(1)),
  },
}

/** Sends one request and prints its outcome. @returns the exit code */
const send = async (call: Call, request: (session: Session) => Promise<Outcome>): Promise<number> =>
  report(call, await call.session(request))

function report(call: Call, outcome: Outcome): number {
  if (outcome.status === 'accepted') {
    const { id, receipt } = outcome
    call.print(outcome, () => [
      `accepted  ${id}`,
      `receipt   ${receipt === undefined ? 'none' : `seq ${receipt.seq}, verified`}`,
    ])
    return 0
  }
  if (outcome.status === 'refused') {
    const { problem } = outcome
    call.print(outcome, () => [`refused   ${problem.code}: ${problem.message}`])
    return 1
  }
  const { status, id, cause } = outcome
  call.print({ status, id, cause: String(cause) }, () => [
    `unknown   ${id}: ${cause}`,
    "it is kept in the wallet: 'tacit settle' asks again and never places it twice",
  ])
  return 2
}

// The effect of a request.

const NOTHING_SENT = 'nothing was sent'

/** Notes that a request takes, and the change it leaves. */
function showNotes(call: Call, tokens: Tokens, notes: readonly WalletNote[], left: bigint): void {
  const [{ mint }] = notes as [WalletNote]
  const { name = mint, decimals = 0 } = tokens.of(mint) ?? {}
  const shown = (units: bigint | string) => `${formatAmount(BigInt(units), decimals)} ${name}`
  call.list('takes', notes, ({ commitment, amount }) => `note         ${commitment}  ${shown(amount)}`)
  call.say('left', { mint, amount: left }, `${shown(left)} as change, once it is settled`)
}

function requireAt(word: string | undefined): void {
  if (word !== '@') throw new UsageFault(`'@' is expected between amount and price, not '${word}'`)
}

function termsOf(call: Call): SessionOrder {
  const [symbol, side, amount, at, price] = call.words
  if (side !== 'buy' && side !== 'sell') throw new UsageFault(`the side is buy or sell, not '${side}'`)
  requireAt(at)
  if (call.flag('ioc') && call.flag('fok')) throw new UsageFault('--ioc and --fok exclude each other')
  const type = call.flag('ioc') ? 'ioc' : call.flag('fok') ? 'fok' : 'limit'
  const min_fill = call.optional('min-fill')
  const terms = { symbol: symbol!, side, type, amount: amount!, price: price!, ...life(call) } as const
  return min_fill === undefined ? terms : { ...terms, min_fill }
}
const life = (call: Call): { life_slots?: number } =>
  call.optional('expires') === undefined ? {} : { life_slots: call.count('expires', 0) }

function placeOrder(call: Call): Promise<number> {
  const order = termsOf(call)
  return send(call, (session) => session.place(order, { merge: !call.flag('no-merge') }))
}

async function check(call: Call): Promise<void> {
  const order = termsOf(call)
  await call.session(async (session) => {
    const { terms, needed, notes, unsigned } = await session.plan(order)
    if (unsigned !== undefined) await session.client.check(unsigned)
    const { instrument, amount, price_limit, side } = terms
    const quote = quoteAmount(amount, price_limit, instrument.base_decimals)
    const fee = feeUpTo(quote, instrument.fee_bps)
    const tokens = await readTokens(session.client)
    const { name = '', decimals = 0 } = tokens.of(needed.mint) ?? {}
    const fee_text = `${formatAmount(fee, instrument.quote_decimals)} ${tokens.of(instrument.quote_mint)?.name}`
    call.say('ok', true, unsigned === undefined ? 'after a merge of notes' : `the venue takes this ${side}`)
    call.say('collateral', needed, `${formatAmount(needed.amount, decimals)} ${name}`)
    call.say('fee', { mint: instrument.quote_mint, amount: fee }, `at most ${fee_text}`)
    showNotes(call, tokens, notes, total(notes) - needed.amount)
    call.hint(NOTHING_SENT)
  })
}

async function modify(call: Call): Promise<number> {
  const [order_id, amount, at, price] = call.words
  requireAt(at)
  return call.session(async (session) => {
    const known = session.wallet.order(order_id!)
    if (known === undefined) throw new InputFault("the wallet has no such order: 'tacit orders' lists them")
    const { symbol, side } = known
    const order = { symbol, side, amount: amount!, price: price!, ...life(call) }
    if (!call.flag('dry-run')) return report(call, await session.modify(order_id!, order))
    const { needed } = await session.plan(order)
    const note = session.wallet.note(known.collateral)!
    if (BigInt(note.amount) < needed.amount)
      throw new InputFault(
        `the note that backs the order holds ${note.amount} base units, less than ${needed.amount}`,
      )
    showNotes(call, await readTokens(session.client), [note], BigInt(note.amount) - needed.amount)
    call.hint(NOTHING_SENT)
    return 0
  })
}

/** @param named orders of the command; undefined for all open ones of a key */
async function cancelling(
  call: Call,
  named: readonly string[] | undefined,
  request: (session: Session) => Promise<Outcome>,
): Promise<number> {
  if (!call.flag('dry-run')) return send(call, request)
  return call.session(async ({ wallet }) => {
    const [key, symbol] = [
      call.optional('key') === undefined ? 0 : call.count('key', 0),
      call.optional('symbol'),
    ]
    const ends = wallet.state.orders.filter((one) => {
      if (named !== undefined) return named.includes(one.order_id)
      return one.open && one.key_index === key && (symbol === undefined || one.symbol === symbol)
    })
    if (named !== undefined && ends.length === 0) throw new InputFault('the wallet has no such order')
    call.list(
      'cancels',
      ends,
      ({ order_id, collateral }) => `cancels      ${order_id}, which frees note ${collateral}`,
    )
    call.say('fee', 0, 'none')
    call.hint(NOTHING_SENT)
    return 0
  })
}

async function deadMan(call: Call): Promise<number> {
  const [slots] = call.words
  if (!/^(0|[1-9][0-9]{0,8})$/.test(slots!)) throw new UsageFault('SLOTS is a whole number')
  return cancelling(call, undefined, (session) => session.deadMan(Number(slots), call.count('key', 0)))
}

async function settle(call: Call): Promise<number> {
  return call.session(async (session) => {
    let code = 0
    for (const { id } of [...session.open_requests])
      code = Math.max(code, report(call, await session.settle(id)))
    if (code === 0) call.hint('no request is open')
    return code
  })
}

/** @throws InputFault */
async function mintIn({ client }: Session, text: string): Promise<string> {
  const mint = await mintNamed(text, async () => client)
  if (mint === undefined)
    throw new InputFault('TOKEN is neither a mint nor the name of a token of an instrument of the venue')
  return mint
}

async function withdraw(call: Call): Promise<number> {
  const [token, amount, destination] = call.words
  const due = { amount: amount!, destination: destination!, ...life(call) }
  if (!call.flag('dry-run'))
    return send(call, async (session) =>
      session.withdraw({ mint: await mintIn(session, token!), ...due }, { merge: !call.flag('no-merge') }),
    )
  return call.session(async (session) => {
    const mint = await mintIn(session, token!)
    const tokens = await readTokens(session.client)
    const { amount: paid, needed, notes } = await session.planWithdrawal({ mint, ...due })
    const { name = mint, decimals = 0 } = tokens.of(mint) ?? {}
    const shown = (units: bigint) => `${formatAmount(units, decimals)} ${name}`
    call.say('pays', { mint, amount: paid, destination }, `${shown(paid)} to ${destination}`)
    call.say('fee', { mint, amount: needed.amount - paid }, shown(needed.amount - paid))
    showNotes(call, tokens, notes, total(notes) - needed.amount)
    call.hint(NOTHING_SENT)
    return 0
  })
}

async function reshape(call: Call, named: readonly string[], into: readonly string[] = []): Promise<number> {
  return call.session(async (session) => {
    const notes = named.map((commitment) => {
      const note = session.wallet.note(commitment)
      if (note === undefined) throw new InputFault("the wallet has no such note: 'tacit notes' lists them")
      return note
    })
    const asked = into.map(unitsIn)
    const rest = asked.reduce((left, amount) => left - amount, total(notes))
    if (rest < 0n) throw new InputFault(`the note holds ${total(notes)} base units`)
    const amounts = rest === 0n ? asked : [...asked, rest]
    if (!call.flag('dry-run')) return report(call, await session.reshape(notes, amounts))
    if (notes.some(({ state }) => state !== 'free')) throw new InputFault('a note is not free')
    call.list('takes', notes, ({ commitment, amount }) => `note         ${commitment}  ${amount} base units`)
    call.list('makes', amounts, (amount) => `note         new  ${amount} base units`)
    call.say('fee', 0, 'none')
    call.hint(NOTHING_SENT)
    return 0
  })
}

// Reading.

function orderLine(one: Order, { instruments }: Tokens): string {
  const of = instruments.get(one.symbol)!
  const amount = (text: string) => formatAmount(BigInt(text), of.base_decimals)
  const price = formatPrice(of, BigInt(one.price_limit))
  const left = `${amount(one.remaining_amount)} of ${amount(one.amount)}`
  return `${one.order_id}  ${one.symbol} ${one.side} ${left} @ ${price}  ${one.type}  ${one.status}`
}

async function orders(call: Call): Promise<void> {
  const status = call.text('status', 'open')
  const symbol = call.optional('symbol')
  await call.session(async ({ client }) => {
    const filter = {
      ...(status === 'all' ? {} : { status: status as Order['status'] }),
      ...(symbol === undefined ? {} : { symbol }),
      limit: 100,
    }
    const { items } = await client.orders(filter)
    const tokens = await readTokens(client)
    call.print(items, () => (items.length === 0 ? ['no orders'] : items.map((one) => orderLine(one, tokens))))
  })
}

async function order(call: Call): Promise<void> {
  await call.session(async ({ client }) => {
    const shown = await client.order(call.words[0]!)
    const tokens = await readTokens(client)
    call.print(shown, () => [orderLine(shown, tokens), ...shown.fills.map((one) => fillLine(one, tokens))])
  })
}

const after = (call: Call): { after?: number; limit: number } =>
  call.optional('after') === undefined ? { limit: 100 } : { after: call.count('after', 0, 15), limit: 100 }

async function fills(call: Call): Promise<void> {
  await call.session(async ({ client }) => {
    const { items } = await client.fills(after(call))
    const tokens = await readTokens(client)
    call.print(items, () => (items.length === 0 ? ['no fills'] : items.map((one) => fillLine(one, tokens))))
  })
}

function fillLine(fill: Fill, { instruments }: Tokens): string {
  const of = instruments.get(fill.symbol)!
  const amount = formatAmount(BigInt(fill.amount), of.base_decimals)
  const fee = formatAmount(BigInt(fill.fee), of.quote_decimals)
  const price = formatPrice(of, BigInt(fill.price))
  return `${fill.order_id}  ${fill.symbol} ${fill.side} ${amount} @ ${price}, fee ${fee}  ${fill.stage}`
}

async function notes(call: Call): Promise<void> {
  await call.session(async ({ wallet, client }) =>
    printNotes(call, wallet, call.flag('all'), await readTokens(client)),
  )
}

async function events(call: Call): Promise<void> {
  await call.session(async ({ client }) => {
    const { items } = await client.events({ after: 0, ...after(call) })
    for (const event of items) console.log(JSON.stringify(event))
  })
}

async function watch(call: Call): Promise<void> {
  const [until, url] = [call.optional('until'), call.optional('forward-to')]
  if (until !== undefined && fromHex(until, 16) === undefined)
    throw new InputFault("--until is the id of an order, 32 hex digits: 'tacit orders' lists them")
  const show = ({ seq, kind, data }: AccountEvent): void =>
    call.print({ seq, kind, data }, () => [`${seq}  ${kind}`])
  await call.session(async (session) => {
    for (;;) {
      const { seq } = session.wallet.state
      if (url !== undefined) await forward(call, session, url)
      if (until !== undefined && isFinal(await session.client.order(until))) return
      await session.until(({ state }) => state.seq > seq || undefined)
    }
  }, show)
}

const isFinal = ({ status, fills }: Order): boolean =>
  status !== 'accepted' &&
  status !== 'partially_filled' &&
  fills.every(({ stage }) => stage === 'finalized' || stage === 'voided')

/**
 * Forwards every event after the last one that was taken. After a lost answer a receiver gets an event twice: `seq` and the
 * header `tacit-generation` mark it. None is left out; a venue that was restored from the chain begins again at 1, in the next
 * generation.
 * @throws InputFault, NotWritten, VenueProblem
 */
async function forward(call: Call, session: Session, url: string): Promise<void> {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new InputFault('--forward-to is an http or https address')
  const path = `${call.text('wallet')}.forwarded`
  const { generation } = await session.client.info()
  for (let after = positionIn(path, generation); ; ) {
    const { items } = await session.client.events({ after, limit: 100 })
    if (items.length === 0) return
    for (const event of items) {
      await post(url, event, generation)
      after = event.seq
      writeWhole(path, `${after} ${generation}\n`, 0o600)
    }
  }
}

/** The file holds seq and generation, in the form of an earlier version seq alone. */
function positionIn(path: string, generation: number): number {
  if (!existsSync(path)) return 0
  const [, seq, of = 0] = /^(\d{1,15})(?: (\d{1,15}))?$/.exec(readInputText(path).trim()) ?? []
  if (seq === undefined) throw new InputFault(`${path} does not hold the seq of an event`)
  return Number(of) === generation ? Number(seq) : 0
}

async function post(url: string, event: AccountEvent, generation: number): Promise<void> {
  const body = JSON.stringify(event)
  for (let wait_ms = STREAM_RETRY_FIRST_MS; ; wait_ms = Math.min(2 * wait_ms, STREAM_RETRY_MAX_MS)) {
    try {
      const headers = { 'content-type': 'application/json', 'tacit-generation': `${generation}` }
      const signal = AbortSignal.timeout(FORWARD_ANSWER_MS)
      const { ok, status } = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'error' })
      if (ok) return
      console.error(`${new URL(url).host} answers ${status} to event ${event.seq}: it is sent again`)
    } catch {
      console.error(`${new URL(url).host} does not answer event ${event.seq}: it is sent again`)
    }
    await new Promise((done) => setTimeout(done, wait_ms))
  }
}
