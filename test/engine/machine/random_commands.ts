/** Random streams of commands against a world: draws decide, and aim at the state's rows. */

import fc from 'fast-check'
import type { CommandBody, CommandOf, NoteFact } from '../../../engine/commands'
import { keyOf } from '../../../engine/machine/state/account'
import { nextClose } from '../../../engine/machine/state/instrument'
import type { Note } from '../../../engine/machine/state/note'
import {
  BASE,
  DESTINATION,
  key,
  LOT,
  QUOTE,
  SIGNATURE,
  seeded,
  TICK,
  World,
} from '../../kit/venue/machine_world'

const ACCOUNTS = ['ann', 'ben', 'cyd', 'dan', 'eve', 'fay', 'gus', 'hal']

type Step = {
  op:
    | 'place'
    | 'modify'
    | 'cancel'
    | 'cancel_all'
    | 'dead_man'
    | 'withdraw'
    | 'reshape'
    | 'slot'
    | 'decide'
    | 'disconnect'
    | 'hash'
    | 'land'
    | 'payout'
    | 'fork'
    | 'credential'
    | 'rebind'
  who: number
  second_key: boolean
  /** 0 = the side the account does not usually take. */
  flips: number
  type: 'limit' | 'ioc' | 'fok'
  lots: number
  ticks: number
  min: number
  pick: number
}

const weighted: [number, Step['op']][] = [
  [30, 'place'],
  [2, 'modify'],
  [2, 'cancel'],
  [1, 'cancel_all'],
  [1, 'dead_man'],
  [1, 'withdraw'],
  [1, 'reshape'],
  [3, 'slot'],
  [3, 'decide'],
  [1, 'disconnect'],
  [2, 'hash'],
  [1, 'land'],
  [1, 'payout'],
  [1, 'fork'],
  [1, 'credential'],
  [1, 'rebind'],
]

export const steps = fc.array(
  fc.record<Step>({
    op: fc.oneof(...weighted.map(([weight, op]) => ({ weight, arbitrary: fc.constant(op) }))),
    who: fc.nat(ACCOUNTS.length - 1),
    second_key: fc.boolean(),
    // Mostly one side per account, else self-crossing would reject most orders.
    flips: fc.integer({ min: 0, max: 9 }),
    type: fc.oneof(
      { weight: 6, arbitrary: fc.constant('limit' as const) },
      { weight: 1, arbitrary: fc.constant('ioc' as const) },
      { weight: 1, arbitrary: fc.constant('fok' as const) },
    ),
    lots: fc.integer({ min: 1, max: 60 }),
    ticks: fc.integer({ min: 92, max: 108 }),
    min: fc.integer({ min: 0, max: 3 }),
    pick: fc.nat(1_000),
  }),
  { minLength: 40, maxLength: 160 },
)

/** Runs one step; rejections are part of the stream. */
function play(world: World, step: Step, serial: number): void {
  const account_id = ACCOUNTS[step.who]!
  const owner = key(`${account_id}${step.second_key ? 2 : 1}`)
  const last = [...world.state.keys.values()].find((one) => one.bytes.toHex() === owner.toHex())
  const who = { account_id, trading_key: owner, signature: SIGNATURE }
  const cancel_nonce = (last?.cancel_nonce ?? 0n) + 1n
  switch (step.op) {
    case 'place':
      world.run(world.placing(account_id, owner, bodyOf(world, step, serial, owner, last?.place_nonce)))
      return
    case 'modify':
    case 'cancel':
      takeBack(world, step, serial)
      return
    case 'cancel_all':
      world.run({ kind: 'cancel_all', account_id, items: [{ ...who, cancel_nonce, symbol: undefined }] })
      return
    case 'dead_man':
      world.run({ kind: 'dead_man', ...who, cancel_nonce, timeout_slots: step.pick % 60 })
      return
    case 'withdraw':
    case 'reshape':
      pay(world, step, serial)
      return
    case 'slot':
      advance(world, 1 + (step.pick % 9), step.pick % 50 === 0)
      return
    case 'decide':
      if (world.state.closed !== undefined) world.decide(step.pick % 4 === 0 ? 'void' : 'committed')
      return
    case 'disconnect':
      for (const armed of [true, false]) {
        const kind = armed ? 'arm_disconnect' : 'disconnected'
        world.must({ kind, account_id, origin: 's', armed } as CommandBody)
      }
      world.must({
        kind: 'node_absent',
        node: `${step.pick % 3}.`,
        spent_ms: step.pick % 2 ? step.pick : undefined,
      })
      return
    case 'hash':
      world.hashAll()
      return
    case 'land':
      world.hashAll()
      world.landBatches()
      return
    case 'payout':
      closePayout(world, step, serial)
      return
    case 'fork':
      fork(world)
      return
    case 'credential':
      setCredential(world, account_id, step)
      return
    case 'rebind': {
      // Half of them bring the key back to the account that uses it here.
      const taker = step.flips < 5 ? account_id : ACCOUNTS[step.pick % ACCOUNTS.length]!
      world.run({ kind: 'rebind', ...who, account_id: taker, cancel_nonce })
    }
  }
}

/** Sets or revokes one of an account's credentials, or logs in with it. */
function setCredential(world: World, account_id: string, { pick, second_key }: Step): void {
  const account = world.state.accounts.get(account_id)!
  const id = seeded(`${account_id} ${second_key}`).slice(0, 16)
  const known = account.credentials.find((one) => one.credential_id === id.toHex())
  if (known !== undefined && pick % 3 > 0) {
    const { credential_id, version: of } = known
    const token_id = seeded(`${account.seq}`).toHex()
    const [ended] = account.tokens
    if (ended !== undefined && pick % 3 === 1)
      world.run({ kind: 'token_ended', account_id, token_id: ended.token_id })
    else
      world.run({
        kind: 'token_issued',
        account_id,
        credential_id,
        version: of,
        token_id,
        until_ms: world.unix_ms + pick,
      })
    return
  }
  const version = account.credential_version + 1
  const terms = { secret_hash: seeded('secret'), passphrase_digest: seeded('pass'), salt: id, expiry_s: 0 }
  const grants = (['trade', 'read', 'revoke'] as const)[pick % 3]!
  world.run({
    kind: 'credential',
    account_id,
    credential_id: id,
    grants,
    version,
    ...terms,
    signature: SIGNATURE,
  })
}

/** Slots pass; a batch closes where one is scheduled. */
function advance(world: World, slots: number, stalls: boolean): void {
  const before = world.state.slot
  const slot = before + slots
  world.must({ kind: 'slot', slot, reopens_slot: stalls ? slot + 3 : 0 })
  if (nextClose(world.state, before) <= slot) world.closeOnly()
}

/** Cancels or modifies a live order in the name of its owner. */
function takeBack(world: World, step: Step, serial: number): void {
  const order = pickOrder(world, step)
  if (order === undefined) return
  const { key: owner } = order
  const { account_id } = owner.account
  const cancel = {
    order_id: fromHex(order.order_id),
    trading_key: owner.bytes,
    cancel_nonce: owner.cancel_nonce + 1n,
    signature: SIGNATURE,
  }
  if (step.op === 'cancel') {
    world.run({ kind: 'cancel', account_id, ...cancel })
    return
  }
  const body = bodyOf(world, step, serial, owner.bytes, owner.place_nonce)
  const replacement = world.placing(account_id, owner.bytes, body)
  world.run({ kind: 'modify', account_id, origin: undefined, cancel, replacement })
}

function bodyOf(
  world: World,
  step: Step,
  serial: number,
  owner: Uint8Array,
  last_nonce = 0n,
): Partial<CommandOf<'place'>> {
  const amount = BigInt(step.lots) * LOT
  const price_limit = BigInt(step.ticks) * TICK
  const value = buysOf(step) ? (BigInt(step.lots * step.ticks) * 102n) / 100n + BigInt(step.pick) : amount
  const opening: NoteFact = world.deposit(owner, buysOf(step) ? QUOTE : BASE, value)
  return {
    order_id: seeded(`random order ${serial}`).slice(0, 16),
    side: buysOf(step) ? 'buy' : 'sell',
    type: step.type,
    amount,
    price_limit,
    min_fill:
      step.type === 'limit' && step.min > 0
        ? amount / BigInt(step.min) - ((amount / BigInt(step.min)) % LOT)
        : 0n,
    nonce: last_nonce + 1n,
    expiry_slot: world.state.slot + 5 + (step.pick % 30),
    collateral_commitment: opening.commitment,
    opening,
    anchors: Array.from({ length: 1 + (step.pick % 3) }, (_, at) => seeded(`anchor ${serial} ${at}`)),
  }
}

function pickOrder(world: World, step: Step) {
  const live = [...world.state.orders.values()]
  return live.length === 0 ? undefined : live[step.pick % live.length]
}

/** Withdraws or splits a free note that the venue knows. */
function pay(world: World, step: Step, serial: number): void {
  const free = [...world.state.notes.values()].filter((note) => note.status === 'free' && note.amount > 20n)
  const note: Note | undefined = free[step.pick % Math.max(1, free.length)]
  const owner = note === undefined ? undefined : keyOf(world.state, note.owner)
  if (note === undefined || owner === undefined) return
  const common = {
    account_id: owner.account.account_id,
    trading_key: owner.bytes,
    nonce: owner.place_nonce + 1n,
    expiry_slot: world.state.slot + 10,
    signature: SIGNATURE,
  }
  const id = seeded(`payment ${serial}`).slice(0, 16)
  const anchor = seeded(`payment anchor ${serial}`)
  const commitment = note.commitment!
  if (step.op === 'withdraw') {
    const amount = note.amount - 3n - BigInt(step.pick % 3)
    const destination = DESTINATION
    const rest = {
      withdrawal_id: id,
      commitment,
      destination,
      amount,
      change_anchor: anchor,
      opening: undefined,
    }
    world.run({ kind: 'withdraw', ...common, ...rest })
    return
  }
  const part = 1n + BigInt(step.pick % 19)
  const rest = { reshape_id: id, inputs: [commitment], amounts: [part, note.amount - part], anchor }
  world.run({ kind: 'reshape', ...common, ...rest, openings: [undefined] })
}

/** Sends, confirms or finalizes an open payout, paid or refunded. */
function closePayout(world: World, step: Step, serial: number): void {
  const open = [...world.state.settlement.queued.keys()]
  const number = open[step.pick % Math.max(1, open.length)]
  if (number === undefined) return
  const stage = (['submitted', 'confirmed', 'finalized'] as const)[step.pick % 3]!
  const refund = {
    outcome: 'refunded' as const,
    refund_commitment: seeded(`refund ${serial}`),
    refund_leaf_index: world.state.leaves.size,
  }
  const refunds = stage !== 'submitted' && step.flips < 4
  world.payout(number, stage, refunds ? refund : {})
  // The program appends the note: its leaf is final with the payout.
  if (refunds && stage === 'finalized')
    world.must({
      kind: 'leaves',
      first_index: refund.refund_leaf_index,
      leaves: [refund.refund_commitment],
      slot: world.state.slot,
    })
}

/** The newest confirmed batch disappears from the chain and comes again. */
function fork(world: World): void {
  const batch = [...world.state.settlement.batches.values()].find((one) => one.hashed !== undefined)
  if (batch === undefined) return
  for (const stage of ['submitted', 'confirmed', 'submitted', 'confirmed'] as const)
    world.stage(batch.batch_id, stage)
}

function fromHex(text: string): Uint8Array {
  return Uint8Array.fromHex(text)
}

function buysOf(step: Step): boolean {
  return (step.who % 2 === 0) === step.flips > 0
}

/** Small, so that most auctions need several settlement batches. */
export const PARTS_MAX = 4

/** `each` looks at the world after every step. */
export function played(stream: Step[], each: (world: World, at: number) => void = () => {}): World {
  const world = new World({ settlement_parts_max: PARTS_MAX })
  for (const account_id of ACCOUNTS) world.account(account_id)
  stream.forEach((step, at) => {
    play(world, step, at)
    each(world, at)
  })
  return world
}
