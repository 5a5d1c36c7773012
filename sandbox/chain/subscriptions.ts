/** WebSocket subscriptions: slot, root, signature, account and logs. */
import { accountJson } from './account_methods'
import type { Commitment, Machine } from './machine'
import {
  addressAt,
  type Config,
  commitmentOf,
  configAt,
  encodeJson,
  invalidParams,
  RawJson,
  textAt,
} from './rpc'

/** Subscriptions one socket may hold. */
const SUBSCRIPTIONS_MAX = 1_000

type Subscription = {
  method: string
  /** Called after every slot and fork; returns results to send and whether the subscription is over. */
  poll: () => { results: unknown[]; over?: boolean }
}

/** The subscriptions of one socket. */
export class Subscriptions {
  #next = 1
  #live = new Map<number, Subscription>()

  constructor(
    readonly machine: Machine,
    readonly send: (text: string) => void,
  ) {}

  /** Undefined when the method is no subscription method. */
  handle(method: string, params: unknown[]): unknown {
    if (method.endsWith('Unsubscribe')) return this.#live.delete(Number(params[0]))
    const open = OPENERS[method]
    if (!open) return undefined
    if (this.#live.size >= SUBSCRIPTIONS_MAX) throw invalidParams('too many subscriptions on this connection')
    const id = this.#next++
    this.#live.set(id, {
      method: method.replace('Subscribe', 'Notification'),
      poll: open(this.machine, params),
    })
    return id
  }

  poll(): void {
    const { notify_never, notify_twice } = this.machine.faults
    for (const [id, { method, poll }] of this.#live) {
      const { results, over } = poll()
      if (over) this.#live.delete(id)
      if (notify_never) continue
      for (const result of results) {
        const text = encodeJson({ jsonrpc: '2.0', method, params: { subscription: id, result } })
        this.send(text)
        if (notify_twice) this.send(text)
      }
    }
  }
}

type Opener = (machine: Machine, params: unknown[]) => Subscription['poll']

/** Slots that reached a commitment since the last call. */
function progress(machine: Machine, level: Commitment): () => number[] {
  let seen = machine.slotAt(level)
  return () => {
    const slots: number[] = []
    while (seen < machine.slotAt(level)) slots.push(++seen)
    return slots
  }
}

const slots: Opener = (machine) => {
  const made = progress(machine, 'processed')
  return () => ({
    results: made().map((slot) => ({ parent: slot - 1, root: machine.slotAt('finalized'), slot })),
  })
}

const roots: Opener = (machine) => {
  const made = progress(machine, 'finalized')
  return () => ({ results: made() })
}

const signature: Opener = (machine, params) => {
  const wanted = textAt(params, 0)
  const level = commitmentOf(configAt(machine, params, 1))
  return () => {
    const found = machine.store.transaction(wanted)
    if (!found || found.slot > machine.slotAt(level)) return { results: [] }
    return { results: [contextOf(machine, level, { err: new RawJson(found.error) })], over: true }
  }
}

const account: Opener = (machine, params) => {
  const address = addressAt(params, 0)
  const config: Config = configAt(machine, params, 1)
  const level = commitmentOf(config)
  const read = (): string => encodeJson(accountJson(machine.accountAt(address, level), config))
  let sent = read()
  return () => {
    const now = read()
    if (now === sent) return { results: [] }
    sent = now
    return { results: [contextOf(machine, level, new RawJson(now))] }
  }
}

const logs: Opener = (machine, params) => {
  const filter = params[0] as 'all' | 'allWithVotes' | { mentions: string[] }
  const level = commitmentOf(configAt(machine, params, 1))
  const made = progress(machine, level)
  return () => {
    const landed = made().flatMap((slot) => machine.landedIn(slot))
    const named = landed.filter(
      (one) => typeof filter === 'string' || filter.mentions.some((a) => one.mentions.includes(a)),
    )
    const value = named.map((one) => ({
      signature: one.signature,
      err: new RawJson(one.error),
      logs: one.logs,
    }))
    return { results: value.map((one) => contextOf(machine, level, one)) }
  }
}

function contextOf(machine: Machine, level: Commitment, value: unknown): unknown {
  return { context: { slot: machine.slotAt(level) }, value }
}

const OPENERS: Record<string, Opener> = {
  slotSubscribe: slots,
  rootSubscribe: roots,
  signatureSubscribe: signature,
  accountSubscribe: account,
  logsSubscribe: logs,
}
