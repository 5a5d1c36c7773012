/** A venue that takes the JSON of requests, each parsed once as the edge parses it. */
import type { Venue } from '../../../engine/venue'
import { parserOf } from '../../../protocol/wire/parse'
import * as wire from '../../../protocol/wire/trading'

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
}

export type JsonVenue = ReturnType<typeof jsonVenue>

export function jsonVenue(venue: Venue) {
  return {
    ...venue,
    /** The venue itself, as the edge calls it. */
    parsed: venue,
    place: async (account_id: string, request: wire.PlaceRequest, origin?: string) =>
      venue.place(account_id, parse.place(request), origin),
    check: (account_id: string, request: wire.CheckRequest) => venue.check(account_id, parse.check(request)),
    cancel: async (account_id: string, order_id: string, request: wire.CancelRequest) =>
      venue.cancel(account_id, parse.cancel({ order_id, ...request })),
    modify: async (account_id: string, order_id: string, request: wire.ModifyRequest, origin?: string) =>
      venue.modify(account_id, parse.modify({ order_id, ...request }), origin),
    cancelAll: async (account_id: string, requests: wire.CancelAllRequest[]) => {
      const items = parse.cancelAll(requests)
      return venue.cancelAll(account_id, Array.isArray(items) ? items : [items])
    },
    deadMan: async (account_id: string, request: wire.DeadManRequest) =>
      venue.deadMan(account_id, parse.deadMan(request)),
    withdraw: async (account_id: string, request: wire.WithdrawalRequest) =>
      venue.withdraw(account_id, parse.withdraw(request)),
    reshape: async (account_id: string, request: wire.ReshapeRequest) =>
      venue.reshape(account_id, parse.reshape(request)),
    postReference: async (price: unknown) => venue.postReference(parse.postReference(price)),
  }
}
