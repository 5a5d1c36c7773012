/** Accounts in the state machine: admission, credentials, logins and the move of a trading key, with their events. */
import { describe, expect, test } from 'bun:test'
import type { CommandOf } from '../../../engine/commands'
import { LIMITS } from '../../../engine/limits'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import type { AccountChange } from '../../../protocol/wire/trading'
import {
  admission,
  cancelling,
  FIXED_HASH_SEED,
  idOf,
  key,
  refused,
  SIGNATURE,
  seeded,
  settings,
  World,
} from '../../kit/venue/machine_world'

type Set = CommandOf<'credential'>
function credential(account_id: string, version: number, change: Partial<Set> = {}): Set {
  return {
    unix_ms: 0,
    kind: 'credential',
    account_id,
    credential_id: idOf(`credential of ${account_id}`),
    grants: 'trade',
    version,
    secret_hash: seeded('secret'),
    passphrase_digest: seeded('passphrase'),
    salt: idOf('salt'),
    expiry_s: 0,
    signature: SIGNATURE,
    ...change,
  }
}
const rebind = (account_id: string, trading_key: Uint8Array, cancel_nonce: bigint) =>
  ({ kind: 'rebind', account_id, trading_key, cancel_nonce, signature: SIGNATURE }) as const
const accountIn = (world: World, id: string) => world.state.accounts.get(id)!
const changesOf = (world: World, id: string) =>
  world.events
    .filter((one) => one.account_id === id && one.event.kind === 'account.changed')
    .map((one) => (one.event.data as AccountChange).change)

function venue(): World {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  return world
}

describe('an admission', () => {
  test('must be newer than the known one, and each is an event of the account', () => {
    const world = venue()
    expect(refused(world, admission('alice', { state: 'suspended' })).code).toBe('record_stale')
    world.account('alice', { version: 5, state: 'suspended', keys_max: 3 })
    expect(refused(world, admission('alice', { version: 5 })).code).toBe('record_stale')
    expect(refused(world, admission('alice', { version: 4 })).code).toBe('record_stale')
    expect(accountIn(world, 'alice')).toMatchObject({
      version: 5,
      state: 'suspended',
      limits: { keys_max: 3 },
    })
    expect(accountIn(world, 'alice').changes).toEqual([
      expect.objectContaining({ seq: 1, change: 'admission', state: 'active', version: 1 }),
      expect.objectContaining({ seq: 2, change: 'admission', state: 'suspended', version: 5 }),
    ])
    expect(changesOf(world, 'alice')).toEqual(['admission', 'admission'])
    world.account('alice', { version: 6 })
    expect(accountIn(world, 'alice').state).toBe('active')
  })

  test('closes an account for good', () => {
    const world = venue()
    world.account('alice', { version: 2, state: 'closed' })
    for (const state of ['active', 'suspended', 'closed'] as const) {
      const { code, facts } = refused(world, admission('alice', { version: 3, state }))
      expect([code, facts]).toEqual(['record_invalid', { field: 'state' }])
    }
  })

  test('cannot promise more live orders than the venue holds, for any numbers of single accounts', () => {
    const world = venue()
    const rest = LIMITS.orders_live_max - 100
    expect(refused(world, admission('carol', { orders_live_max: rest - 99 })).code).toBe('order_limit')
    world.account('carol', { orders_live_max: rest - 100 })
    expect(refused(world, admission('dave', { orders_live_max: 1 })).code).toBe('order_limit')
    // A lowered bound counts as before until the orders accepted under it have expired, raised in between or not.
    const life = settings().order_life_slots_max
    world.account('carol', { version: 2, orders_live_max: 7 })
    world.account('carol', { version: 3, orders_live_max: 9 })
    for (const slot of [1_001, 1_000 + life]) {
      world.must({ kind: 'slot', reopens_slot: 0, slot })
      expect(refused(world, admission('dave', { orders_live_max: 1 })).code).toBe('order_limit')
    }
    world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
    expect(refused(world, admission('dave', { orders_live_max: 1 })).code).toBe('order_limit')
    world.must({ kind: 'slot', reopens_slot: 0, slot: 1_001 + life })
    const left = LIMITS.orders_live_max - 200 - 9
    expect(refused(world, admission('dave', { orders_live_max: left + 1 })).code).toBe('order_limit')
    world.account('dave', { orders_live_max: left })
    world.account('frank', { orders_live_max: 0 })
  })

  test('cannot promise more trading keys than the venue holds, and may ask for no more at any time', () => {
    const world = venue()
    const none = { orders_live_max: 0 }
    const left = LIMITS.trading_keys_max - 20
    expect(refused(world, admission('carol', { ...none, keys_max: left + 1 })).code).toBe('key_limit')
    world.account('carol', { ...none, keys_max: left })
    expect(refused(world, admission('dave', { ...none, keys_max: 1 })).code).toBe('key_limit')
    expect(refused(world, admission('alice', { version: 2, keys_max: 11 })).code).toBe('key_limit')
    world.account('alice', { version: 2, keys_max: 10, state: 'suspended' })
    for (const name of ['x', 'y']) world.must(rebind('bob', key(name), 1n))
    world.account('bob', { version: 2, keys_max: 0 })
    expect(refused(world, admission('dave', { ...none, keys_max: 9 })).code).toBe('key_limit')
    world.account('dave', { ...none, keys_max: 8 })
  })

  // The operator lowers a trader's bound and admits accounts up to the venue's bound.
  test.each([0, 1, 3])("does not depend on a trader's orders: %d", (orders) => {
    const world = venue()
    for (let order = 0; order < orders; order++) world.must(world.placing('alice', key('a'), {}))
    world.account('alice', { version: 2, orders_live_max: 0 })
    const answers = (left: number) => [
      world.run(admission('mallory', { orders_live_max: left + 1 })).ok,
      world.run(admission('mallory', { orders_live_max: left })).ok,
    ]
    expect(answers(LIMITS.orders_live_max - 200)).toEqual([false, true])
    world.account('mallory', { version: 2, orders_live_max: 0 })
    const slot = 1_001 + settings().order_life_slots_max
    world.must({ kind: 'slot', reopens_slot: 0, slot })
    expect(world.run(admission('trent', { orders_live_max: LIMITS.orders_live_max - 100 })).ok).toBe(true)
  })

  test('beyond the bound on accounts is refused', () => {
    const world = venue()
    const known = accountIn(world, 'alice')
    for (let at = 2; at < LIMITS.accounts_max; at++)
      world.state.accounts.set(`filler ${at}`, { ...known, limits: { ...known.limits, orders_live_max: 0 } })
    const outcome = world.run(admission('late', { orders_live_max: 0 }))
    expect(outcome).toMatchObject({ ok: false, code: 'record_invalid', facts: { field: 'account_key' } })
    world.account('bob', { version: 2 })
  })
})

describe('a credential', () => {
  test('needs an account, and a version above that of every body before, revocations included', () => {
    const world = venue()
    expect(refused(world, credential('nobody', 1)).code).toBe('account_unknown')
    world.must(credential('alice', 3))
    for (const version of [2, 3])
      expect(refused(world, credential('alice', version)).code).toBe('credential_version')
    const answer = world.must(credential('alice', 4, { grants: 'revoke' })).answer
    const credential_id = idOf('credential of alice').toHex()
    expect(answer).toEqual({ kind: 'credential', result: { credential_id, version: 4, seq: 3 } })
    expect(accountIn(world, 'alice').credentials).toEqual([])
    expect(world.state.credentials.size).toBe(0)
    // The revoked body is not accepted again.
    expect(refused(world, credential('alice', 3)).code).toBe('credential_version')
    expect(changesOf(world, 'alice')).toEqual(['admission', 'credential', 'credential'])
  })

  test('of a revocation of an unknown id only raises the version', () => {
    const world = venue()
    world.must(credential('alice', 9, { grants: 'revoke' }))
    expect(refused(world, credential('alice', 8)).code).toBe('credential_version')
    expect(accountIn(world, 'alice').credential_version).toBe(9)
  })

  test('cannot take the id of another account, until that one gives it up', () => {
    const world = venue()
    world.must(credential('alice', 1))
    const theft = credential('bob', 1, { credential_id: idOf('credential of alice') })
    expect(refused(world, theft).code).toBe('credential_taken')
    expect(refused(world, { ...theft, grants: 'revoke' }).code).toBe('credential_taken')
    world.must(credential('alice', 2, { grants: 'revoke' }))
    world.must(theft)
    expect(world.state.credentials.get(theft.credential_id.toHex())).toBe(accountIn(world, 'bob'))
  })

  test('is replaced under its id; further ones are bounded', () => {
    const world = venue()
    for (let at = 1; at <= LIMITS.account_credentials_max; at++)
      world.must(credential('alice', at, { credential_id: idOf(`further ${at}`), grants: 'read' }))
    expect(refused(world, credential('alice', 100)).code).toBe('credential_limit')
    const last = LIMITS.account_credentials_max
    world.must(credential('alice', 100, { credential_id: idOf(`further ${last}`), expiry_s: 7 }))
    expect(accountIn(world, 'alice').credentials.length).toBe(last)
    expect(accountIn(world, 'alice').credentials.at(-1)).toMatchObject({
      kind: 'trade',
      version: 100,
      expiry_s: 7,
      created_slot: 1_000,
    })
    world.must(credential('alice', 101, { credential_id: idOf('further 1'), grants: 'revoke' }))
    world.must(credential('alice', 102))
  })
})

describe('a login', () => {
  const login = (version: number, name = 'alice') =>
    ({
      kind: 'login',
      account_id: 'alice',
      credential_id: idOf(`credential of ${name}`).toHex(),
      version,
    }) as const

  test('counts for the version in force and before its end alone', () => {
    const world = venue()
    world.must(credential('alice', 2, { expiry_s: Math.floor(world.unix_ms / 1_000) + 2 }))
    for (const wrong of [login(1), login(3), login(2, 'bob')])
      expect(refused(world, wrong).code).toBe('credentials_invalid')
    world.must(login(2))
    // The next command is one millisecond later: the last one before the end counts.
    world.unix_ms = (Math.floor(world.unix_ms / 1_000) + 2) * 1_000 - 2
    world.must(login(2))
    expect(refused(world, login(2)).code).toBe('credential_expired')
    expect(changesOf(world, 'alice')).toEqual(['admission', 'credential', 'login', 'login'])
  })

  test('with its token counts and is refused as one without', () => {
    const world = venue()
    world.must(credential('alice', 2, { expiry_s: Math.floor(world.unix_ms / 1_000) + 2 }))
    for (const wrong of [issued(world, '00', 1), issued(world, '00', 3), issued(world, '00', 2, 'bob')])
      expect(refused(world, wrong).code).toBe('credentials_invalid')
    expect(accountIn(world, 'alice').tokens).toEqual([])
    world.must(issued(world, '01', 2))
    world.unix_ms += 2_000
    expect(refused(world, issued(world, '02', 2)).code).toBe('credential_expired')
    expect(changesOf(world, 'alice')).toEqual(['admission', 'credential', 'login'])
    expect(tokensOf(world)).toEqual(['01'])
  })

  test('keeps the hash of its token until that ends: revoked, too old, one of too many, or of a replaced credential', () => {
    const world = venue()
    world.must(credential('alice', 1))
    world.must(credential('alice', 2, { credential_id: idOf('another') }))
    const ofOther = () => ({ ...issued(world, 'ff', 2), credential_id: idOf('another').toHex() })
    world.must(ofOther())
    world.must(issued(world, '01', 1))
    world.must(issued(world, '02', 1))
    const end = (token: string) =>
      ({ kind: 'token_ended', account_id: 'alice', token_id: token.repeat(32) }) as const
    world.must(end('01'))
    // Of another account, and again.
    world.must({ ...end('02'), account_id: 'bob' })
    world.must(end('01'))
    expect(tokensOf(world)).toEqual(['ff', '02'])
    world.unix_ms += LIFE_MS
    world.must(issued(world, '03', 1))
    expect(tokensOf(world)).toEqual(['03'])
    world.must(ofOther())
    for (let at = 0x10; at < 0x10 + LIMITS.credential_tokens_max; at++)
      world.must(issued(world, at.toString(16), 1))
    expect(tokensOf(world).slice(0, 2)).toEqual(['ff', '10'])
    expect(tokensOf(world).length).toBe(1 + LIMITS.credential_tokens_max)
    world.must(credential('alice', 3))
    expect(tokensOf(world)).toEqual(['ff'])
    world.must(credential('alice', 4, { credential_id: idOf('another'), grants: 'revoke' }))
    expect(tokensOf(world)).toEqual([])
  })

  const LIFE_MS = 900_000
  const issued = (world: World, token: string, version: number, name = 'alice') => {
    const named = { token_id: token.repeat(32), until_ms: world.unix_ms + LIFE_MS }
    return { ...login(version, name), kind: 'token_issued', ...named } as const
  }
  const tokensOf = (world: World) =>
    accountIn(world, 'alice').tokens.map(({ token_id }) => token_id.slice(0, 2))

  test('makes room for other changes in the list, and the newest stay', () => {
    const world = venue()
    world.must(credential('alice', 1))
    for (let at = 0; at < LIMITS.account_changes_max + 5; at++) world.must(login(1))
    world.account('alice', { version: 2, state: 'suspended' })
    const { changes } = accountIn(world, 'alice')
    expect(changes.length).toBe(LIMITS.account_changes_max)
    expect(changes.slice(0, 3).map((one) => one.change)).toEqual(['admission', 'credential', 'login'])
    expect(changes.at(-1)).toMatchObject({ change: 'admission', state: 'suspended' })
    for (let version = 3; version < 3 + LIMITS.account_changes_max; version++)
      world.account('alice', { version })
    expect(accountIn(world, 'alice').changes.length).toBe(LIMITS.account_changes_max)
    expect(accountIn(world, 'alice').changes.every((one) => one.change === 'admission')).toBe(true)
    expect(accountIn(world, 'alice').changes[0]).toMatchObject({ version: 3 })
  })
})

describe('a rebind', () => {
  test('cancels the key’s orders in the account it leaves, then belongs to the other', () => {
    const world = venue()
    const orders = [world.placing('alice', key('a'), {}), world.placing('alice', key('a'), {})]
    for (const order of orders) world.must(order)
    world.must(world.placing('alice', key('kept'), {}))
    const { answer } = world.must(rebind('bob', key('a'), 3n))
    const cancelled = orders.map(({ order_id }) => order_id.toHex())
    const [trading_key] = accountIn(world, 'bob').keys.map(({ text }) => text)
    expect(answer).toEqual({ kind: 'rebind', result: { trading_key: trading_key!, cancelled, seq: 2 } })
    expect([accountIn(world, 'alice').keys.length, accountIn(world, 'alice').live]).toEqual([1, 1])
    expect([...accountIn(world, 'alice').exposures.values()].length).toBe(1)
    const last = world.events.slice(-4).map(({ account_id, event }) => [account_id, event.kind])
    expect(last).toEqual([
      ['alice', 'order.cancelled'],
      ['alice', 'order.cancelled'],
      ['alice', 'account.changed'],
      ['bob', 'account.changed'],
    ])
    expect(world.events.at(-3)!.event.data).toMatchObject({ reason: 'rebound' })
    expect([changesOf(world, 'alice').at(-1), changesOf(world, 'bob').at(-1)]).toEqual([
      'key_left',
      'key_joined',
    ])
    const note = { collateral_commitment: orders[0]!.collateral_commitment, opening: orders[0]!.opening }
    expect(refused(world, world.placing('alice', key('a'), { ...note, nonce: 99n })).code).toBe('key_bound')
    world.must(world.placing('bob', key('a'), { ...note, nonce: 99n }))
  })

  test('needs a higher cancel nonce, room for the key, and no order of it in a closed batch', () => {
    const world = venue()
    world.must(world.placing('alice', key('a'), { order_id: idOf('one') }))
    world.must(world.placing('alice', key('a'), {}))
    world.must(cancelling('alice', key('a'), 'one', 5n))
    expect(refused(world, rebind('bob', key('a'), 5n))).toMatchObject({
      code: 'nonce_stale',
      facts: { nonce_last: '5' },
    })
    world.account('bob', { version: 2, keys_max: 0 })
    expect(refused(world, rebind('bob', key('a'), 6n)).code).toBe('account_key_limit')
    expect(refused(world, rebind('bob', key('unused'), 6n)).code).toBe('account_key_limit')
    world.account('bob', { version: 3, keys_max: 1 })
    world.closeOnly()
    expect(refused(world, rebind('bob', key('a'), 6n)).code).toBe('commit_undecided')
    world.decide('void')
    world.must(rebind('bob', key('a'), 6n))
    // An own key needs no room.
    world.must(rebind('bob', key('a'), 7n))
    expect(refused(world, rebind('bob', key('a'), 7n)).code).toBe('nonce_stale')
  })

  test('of an unused key binds it, and a key that comes back has its old place', () => {
    const world = venue()
    for (const name of ['x', 'y', 'z']) world.must(rebind('alice', key(name), 1n))
    expect(accountIn(world, 'alice').keys.map(({ index }) => index)).toEqual([0, 1, 2])
    world.must(rebind('bob', key('y'), 2n))
    world.must(rebind('alice', key('y'), 3n))
    expect(accountIn(world, 'alice').keys.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(accountIn(world, 'bob').keys).toEqual([])
  })

  test('and everything else of accounts is in a snapshot', () => {
    const world = venue()
    world.must(credential('alice', 7, { grants: 'read', expiry_s: 99 }))
    world.must(world.placing('alice', key('a'), {}))
    world.must(rebind('bob', key('a'), 1n))
    world.account('bob', { version: 2, state: 'closed' })
    const copy = decodeState(encodeState(world.state), FIXED_HASH_SEED)
    for (const name of ['alice', 'bob']) {
      const { keys, exposures: _, ...rest } = copy.accounts.get(name)!
      const { keys: known, exposures: __, ...expected } = accountIn(world, name)
      expect(rest).toEqual(expected)
      expect(keys.map(({ text }) => text)).toEqual(known.map(({ text }) => text))
    }
    expect([...copy.credentials.keys()]).toEqual([...world.state.credentials.keys()])
    expect(copy.credentials.get(idOf('credential of alice').toHex())!.account_id).toBe('alice')
  })
})

test('limits of nothing stop no cancel of an order in a closed batch', () => {
  const world = venue()
  for (const name of ['one', 'two']) world.must(world.placing('alice', key('a'), { order_id: idOf(name) }))
  world.account('alice', { version: 2, state: 'closed', orders_live_max: 0 })
  world.closeOnly()
  world.must(cancelling('alice', key('a'), 'one', 1n))
  world.must(cancelling('alice', key('a'), 'two', 2n))
  expect(refused(world, cancelling('alice', key('a'), 'one', 3n)).code).toBe('commit_undecided')
})

test('a suspended and a closed account cancel, withdraw and read, and place, modify and reshape nothing', () => {
  for (const state of ['suspended', 'closed'] as const) {
    const world = venue()
    const live = world.placing('alice', key('a'), { order_id: idOf('live') })
    world.must(live)
    world.account('alice', { version: 2, state })
    expect(refused(world, world.placing('alice', key('a'), {})).code).toBe('account_suspended')
    world.must(cancelling('alice', key('a'), 'live', 1n))
    const { collateral_commitment: commitment } = live
    const id = { withdrawal_id: idOf('w'), trading_key: key('a'), account_id: 'alice', signature: SIGNATURE }
    const terms = {
      destination: seeded('to'),
      amount: 100n,
      nonce: 50n,
      expiry_slot: 1_500,
      change_anchor: seeded('c'),
    }
    world.must({ kind: 'withdraw', ...id, commitment, ...terms, opening: undefined })
  }
})
