/** A venue that takes the JSON of requests, each parsed once as the edge parses it, and accounts by their test's names. */
import type { Page, Venue } from '../../../engine/venue'
import { fromHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import * as accounts from '../../../protocol/wire/accounts'
import * as wire from '../../../protocol/wire/trading'
import { parserOf } from '../../../protocol/wire/values'
import { DEFAULT_LIMITS, signAdmission } from '../../../tools/account/call_operator'
import { accountId, accountSeed, OPERATOR_SEED } from './test_login'

const parse = {
  place: parserOf(wire.PlaceRequest),
  check: parserOf(wire.CheckRequest),
  cancel: parserOf(wire.CancelParams),
  modify: parserOf(wire.ModifyParams),
  cancelAll: parserOf(wire.CancelAllBody),
  deadMan: parserOf(wire.DeadManRequest),
  withdraw: parserOf(wire.WithdrawalRequest),
  reshape: parserOf(wire.ReshapeRequest),
  postReference: parserOf(wire.ReferencePrice),
  changeInstrument: parserOf(wire.InstrumentChange),
  admit: parserOf(accounts.AdmissionRequest),
  setCredential: parserOf(accounts.CredentialRequest),
  rebind: parserOf(accounts.RebindRequest),
}
/** Terms of an account; the operator of every test venue signs them. */
type Terms = {
  account_id: string
  version: number
  state?: wire.AdmissionRequest['state']
} & Partial<wire.AccountLimits>

export type JsonVenue = ReturnType<typeof jsonVenue>

export function jsonVenue(venue: Venue) {
  const named =
    <A extends unknown[], R>(method: (account_id: string, ...rest: A) => R) =>
    (name: string, ...rest: A): R =>
      method(accountId(name), ...rest)
  const { own } = venue
  return {
    ...venue,
    nonces: named(venue.nonces),
    ...objectsOf(own),
    settlementOfOrder: named(venue.settlementOfOrder),
    armDisconnect: named(venue.armDisconnect),
    disconnected: named(venue.disconnected),
    account: named(venue.account),
    own: {
      order: named(own.order.bind(own)),
      orders: named(own.orders.bind(own)),
      fills: named(own.fills.bind(own)),
      events: named(own.events.bind(own)),
      withdrawal: named(own.withdrawal.bind(own)),
      reshape: named(own.reshape.bind(own)),
      snapshot: (name: string) => own.snapshot({ account_id: accountId(name), access: 'trade' }),
    },
    /** Admits the account with this name, as an operator does. */
    provision: async ({ account_id, version, state = 'active', ...limits }: Terms) => {
      const account_key = publicKeyOf(accountSeed(account_id))
      const terms = { account_key, version, state, limits: { ...DEFAULT_LIMITS, ...limits } }
      const target = { operator_seed: OPERATOR_SEED, venue: fromHex(venue.identity().venue, 32)! }
      return venue.admit(parse.admit(signAdmission(terms, target)))
    },
    setCredential: async (name: string | undefined, request: wire.CredentialRequest) =>
      venue.setCredential(name === undefined ? undefined : accountId(name), parse.setCredential(request)),
    rebind: async (name: string, request: wire.RebindRequest) =>
      venue.rebind(accountId(name), parse.rebind(request)),
    /** The venue itself, as the edge calls it. */
    parsed: venue,
    place: async (account_id: string, request: wire.PlaceRequest, origin?: string) =>
      venue.place(accountId(account_id), parse.place(request), origin),
    check: (account_id: string, request: wire.CheckRequest) =>
      venue.check(accountId(account_id), parse.check(request)),
    cancel: async (account_id: string, order_id: string, request: wire.CancelRequest) =>
      venue.cancel(accountId(account_id), parse.cancel({ order_id, ...request })),
    modify: async (account_id: string, order_id: string, request: wire.ModifyRequest, origin?: string) =>
      venue.modify(accountId(account_id), parse.modify({ order_id, ...request }), origin),
    cancelAll: async (account_id: string, requests: wire.CancelAllRequest[]) => {
      const items = parse.cancelAll(requests)
      return venue.cancelAll(accountId(account_id), Array.isArray(items) ? items : [items])
    },
    deadMan: async (account_id: string, request: wire.DeadManRequest) =>
      venue.deadMan(accountId(account_id), parse.deadMan(request)),
    withdraw: async (account_id: string, request: wire.WithdrawalRequest) =>
      venue.withdraw(accountId(account_id), parse.withdraw(request)),
    reshape: async (account_id: string, request: wire.ReshapeRequest) =>
      venue.reshape(accountId(account_id), parse.reshape(request)),
    changeInstrument: async (change: unknown) => venue.changeInstrument(parse.changeInstrument(change)),
    postReference: async (price: unknown) => venue.postReference(parse.postReference(price)),
  }
}

/** The venue's texts as objects. */
function objectsOf(own: Venue['own']) {
  return {
    order: async (name: string, order_id: string): Promise<wire.Order> =>
      JSON.parse(own.order(accountId(name), order_id)),
    orders: async (name: string, page: Parameters<typeof own.orders>[1]): Promise<wire.Page<wire.Order>> =>
      JSON.parse(own.orders(accountId(name), page)),
    fills: async (name: string, page: Page): Promise<wire.Page<wire.Fill>> =>
      JSON.parse(own.fills(accountId(name), page)),
    events: async (name: string, page: Page): Promise<wire.Page<wire.AccountEvent>> =>
      JSON.parse(own.events(accountId(name), page)),
    withdrawal: async (name: string, withdrawal_id: string): Promise<wire.Withdrawal> =>
      JSON.parse(own.withdrawal(accountId(name), withdrawal_id)),
    reshapeOf: async (name: string, reshape_id: string): Promise<wire.Reshape> =>
      JSON.parse(own.reshape(accountId(name), reshape_id)),
    snapshot: async (name: string): Promise<{ seq: number; orders: wire.Order[] }> => {
      const { seq, orders } = await own.snapshot({ account_id: accountId(name), access: 'trade' })
      return { seq, orders: JSON.parse(orders) }
    },
  }
}
