/** A trader on a running venue: account, chain key, streams open, notes deposited for its keys, and one socket for raw frames. */
import { type Login, VenueClient } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { airdrop, deposit, mintTo } from '../../../client/chain/deposit'
import { ownAccount, tokenBalance } from '../../../client/chain/read_vault'
import { signCredential } from '../../../client/wallet/account'
import { preparePlace } from '../../../client/wallet/prepare'
import { publicKeyOf } from '../../../protocol/sign'
import type { PlaceRequest, PlaceResult } from '../../../protocol/wire/trading'
import { SOL, USDC } from '../../../sandbox/environment'
import { callOperator, type OperatorTarget, signAdmission } from '../../../tools/account/call_operator'
import { accountSeed, testCredential } from '../../kit/venue/test_login'
import { LoadTrader } from './load_trader'
import { operatorNow, operatorTarget, type VenueProcess, venueTransport } from './venue_process'

/** So that no test waits for its bucket to refill. */
const LIMITS = {
  rate_capacity: 100_000,
  rate_refill_per_s: 10_000,
  orders_live_max: 10_000,
  keys_max: 10_000,
}

let posting: Promise<unknown> = Promise.resolve()

/** @param credential_of whose credential is admitted under the account key of `account_id` */
export async function openAccount(
  venue: VenueProcess,
  account_id: string,
  credential_of = account_id,
): Promise<{ client: VenueClient; credentials: Login }> {
  const target = await operatorTarget(venue)
  const account_key = publicKeyOf(accountSeed(account_id))
  const record = signAdmission({ account_key, version: 1, state: 'active', limits: LIMITS }, target)
  const { login: credentials, request } = testCredential(credential_of, target.venue)
  const { account_key: _, signature: __, ...fields } = request
  const signed = signCredential(accountSeed(account_id), target.venue, fields)
  await post(target, '/accounts', record)
  await post(target, '/accounts/credentials', signed)
  return { client: new VenueClient(venueTransport(venue), credentials), credentials }
}

/** The operator's nonces rise in the order of arrival, so one call is under way at a time. */
function post(target: OperatorTarget, path: string, body: unknown): Promise<string> {
  const call = { method: 'POST', path, body: JSON.stringify(body) } as const
  const posted = posting.then(() => callOperator(target, call, operatorNow()))
  posting = posted.catch(() => {})
  return posted
}

const FEE_LAMPORTS = 5_000_000_000n
const POLL_MS = 50

/** `notes` of each mint and key. */
export async function fundTrader(
  trader: LoadTrader,
  program_id: string,
  amounts: ReadonlyMap<string, bigint>,
  notes: number,
): Promise<void> {
  const { chain, wallet } = trader
  await airdrop(chain, FEE_LAMPORTS)
  for (const [mint, amount] of amounts) {
    const total = amount * BigInt(trader.keys * notes)
    await mintTo(chain, mint, total)
    while ((await tokenBalance(chain, ownAccount(chain, mint).bytes)) < total) await Bun.sleep(POLL_MS)
  }
  const deposits: Promise<unknown>[] = []
  for (const [mint, amount] of amounts) {
    for (let key_index = 0; key_index < trader.keys; key_index++) {
      for (let i = 0; i < notes; i++)
        deposits.push(deposit(chain, wallet, { program_id, mint, amount, key_index }))
    }
  }
  await Promise.all(deposits)
  const unseen = new Set(wallet.state.notes.map((note) => note.commitment))
  while (unseen.size > 0) {
    for (const commitment of unseen) {
      const proof = await trader.client.inclusion({ commitment }).catch(() => undefined)
      if (proof?.usable === true) unseen.delete(commitment)
    }
    if (unseen.size > 0) await Bun.sleep(POLL_MS)
  }
}

/** In each note. */
export const DEPOSITED: ReadonlyMap<string, bigint> = new Map([
  [SOL, 20_000_000_000n],
  [USDC, 3_000_000_000n],
])

export async function openTrader(
  venue: VenueProcess,
  name: string,
  of: { keys: number; notes: number; mints?: readonly string[] },
): Promise<LoadTrader> {
  const { client } = await openAccount(venue, name)
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const trader = new LoadTrader(name, of.keys, client, chain)
  await trader.connect()
  const mints = of.mints ?? [...DEPOSITED.keys()]
  const amounts = new Map(mints.map((mint) => [mint, DEPOSITED.get(mint)!]))
  await fundTrader(trader, venue.facts.program_id, amounts, of.notes)
  return trader
}

/** A sell far above the market, which therefore rests; nothing of it is drawn at random but the note's blinding. */
export async function restOrder(trader: LoadTrader): Promise<{ request: PlaceRequest; result: PlaceResult }> {
  const note = trader.wallet.noteFor(SOL, 1_000_000_000n)!
  const terms = {
    instrument: trader.instrument,
    side: 'sell',
    amount: 1_234_000_000n,
    price_limit: 155_321_000n,
    expiry_slot: trader.slot + 100_000,
  } as const
  const request = preparePlace(trader.wallet, trader.venue, terms, note)
  return { request, result: await trader.client.place(request) }
}

/** Sells to README's first order, at its price. */
export async function sellOnce(trader: LoadTrader): Promise<PlaceResult> {
  const terms = {
    instrument: trader.instrument,
    side: 'sell',
    amount: 1_500_000_000n,
    price_limit: 149_250_000n,
    expiry_slot: (await trader.client.time()).slot + 5_000,
  } as const
  const note = trader.wallet.noteFor(SOL, terms.amount)!
  return trader.client.place(preparePlace(trader.wallet, trader.venue, terms, note))
}

type Frame = Record<string, unknown>

export async function openFrameSocket(client: VenueClient, path: string) {
  const frames: Frame[] = []
  const waiting: ((frame: Frame) => void)[] = []
  const socket = client.transport.webSocket(`${path}?token=${await client.token()}&after=0`)
  const [opened, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()]
  socket.onopen = () => opened.resolve()
  socket.onclose = ({ code }) => {
    opened.reject(new Error(`closed with ${code}`))
    closed.resolve(code)
  }
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(String(data)) as Frame
    if (frame['type'] !== 'reply' && frame['type'] !== 'error') return
    const next = waiting.shift()
    if (next === undefined) frames.push(frame)
    else next(frame)
  }
  await opened.promise
  return {
    closed: closed.promise,
    close: () => socket.close(),
    send: (message: string | Uint8Array<ArrayBuffer>) => socket.send(message),
    next: () =>
      new Promise<Frame>((resolve) => {
        const first = frames.shift()
        if (first === undefined) waiting.push(resolve)
        else resolve(first)
      }),
  }
}
