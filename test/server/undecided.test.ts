/** Connections whose ClientHello is incomplete: bounded in number and bytes, and strangers displace each other first. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { networkOf, Undecided } from '../../server/tls/challenge_front'

type Connection = { name: string; address: string }

function open(bounds: { connections: number; bytes: number }) {
  const dropped: string[] = []
  const undecided = new Undecided<Connection>(bounds, ({ name }) => dropped.push(name))
  const add = (name: string, address: string) => {
    const connection = { name, address }
    undecided.add(connection, address)
    return connection
  }
  return { undecided, dropped, add }
}

test('beyond the number, the oldest connection of the address with the most goes', () => {
  const { undecided, dropped, add } = open({ connections: 4, bytes: 1_000 })
  add('other', 'b')
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) add(name, 'a')
  expect(dropped).toEqual(['a1', 'a2'])
  add('c1', 'c')
  expect(dropped).toEqual(['a1', 'a2', 'a3'])
  expect(undecided.count).toBe(4)
})

test('behind one address, as behind a gateway, the oldest goes and the newest stays', () => {
  const { dropped, add } = open({ connections: 2, bytes: 1_000 })
  for (const name of ['first', 'second', 'third', 'fourth']) add(name, 'gateway')
  expect(dropped).toEqual(['first', 'second'])
})

test('beyond the bytes, the address that holds the most loses connections until the rest fits', () => {
  const { undecided, dropped, add } = open({ connections: 100, bytes: 100 })
  const usual = add('usual', 'b')
  undecided.keep(usual, 40)
  const [idle, large] = [add('idle', 'a'), add('large', 'a')]
  undecided.keep(large, 50)
  undecided.keep(large, 20)
  expect(dropped).toEqual(['idle', 'large'])
  expect([undecided.count, undecided.bytes]).toEqual([1, 40])
  // Late calls for a connection that is gone change nothing.
  undecided.keep(idle, 10)
  undecided.remove(large)
  expect(undecided.bytes).toBe(40)
})

test('what a connection held is no longer counted to its address once it is gone', () => {
  const { undecided, dropped, add } = open({ connections: 100, bytes: 100 })
  const gone = add('gone', 'a')
  undecided.keep(gone, 90)
  const small = add('small', 'a')
  undecided.keep(small, 10)
  expect(dropped).toEqual([])
  undecided.remove(gone)
  undecided.keep(add('large', 'b'), 95)
  expect(dropped).toEqual(['large'])
  undecided.remove(small)
  expect(Reflect.get(undecided, 'networks')).toHaveProperty('size', 0)
})

const FULL = { connections: 1_024, bytes: 4 * 1024 * 1024 }
/** Connections of as many IPv6 networks as needed, one each. */
const scattered = (at: number) => `2001:db8:${(at >> 8).toString(16)}:${(at & 255).toString(16)}::1`

test('many addresses of one IPv6 network displace each other and nobody else', () => {
  const { dropped, add } = open(FULL)
  add('usual', '198.51.100.1')
  for (let at = 0; at <= 1_024; at += 1) add(`stranger ${at}`, `2001:db8:0:7:${at.toString(16)}::${at}`)
  expect(dropped).toEqual(['stranger 0', 'stranger 1'])
})

test('many networks with one connection each displace the oldest of all, not those who share an address', () => {
  const { dropped, add } = open(FULL)
  for (let at = 0; at < 1_022; at += 1) add(`stranger ${at}`, scattered(at))
  for (const name of ['usual 1', 'usual 2', 'usual 3']) add(name, '198.51.100.1')
  expect(dropped).toEqual(['stranger 0'])
})

test('a network is displaced for its share from one sixteenth of the places on', () => {
  for (const [count, first] of [
    [64, 'other 0'],
    [65, 'gateway 0'],
  ] as const) {
    const { dropped, add } = open(FULL)
    for (let at = 0; at < 1_024 - count; at += 1) add(`other ${at}`, scattered(at))
    for (let at = 0; at < count; at += 1) add(`gateway ${at}`, '198.51.100.1')
    expect(dropped).toEqual([])
    add('one more', '203.0.113.9')
    expect([count, dropped]).toEqual([count, [first]])
  }
})

test('bytes count for a network from one sixteenth of the bytes on', () => {
  for (const [held, first] of [
    [100, 'idle'],
    [101, 'heavy'],
  ] as const) {
    const { undecided, dropped, add } = open({ connections: 1_024, bytes: 1_600 })
    add('idle', '203.0.113.9')
    undecided.keep(add('heavy', '198.51.100.1'), held)
    for (let at = 0; at < 15; at += 1) undecided.keep(add(`other ${at}`, scattered(at)), 100)
    if (held === 100) undecided.keep(add('one more', scattered(999)), 1)
    expect([held, dropped[0]]).toEqual([held, first])
  }
})

test('a network is an IPv4 address, in either notation, or 64 bits of an IPv6 address', () => {
  for (const [address, network] of [
    ['198.51.100.1', '198.51.100.1'],
    ['::ffff:198.51.100.1', '198.51.100.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['2001:db8::3:4:5:6', '2001:db8:0:0'],
    ['2001:db8::2:3:4:5:6', '2001:db8:0:2'],
    ['2001::1:2:3:4:5:6', '2001:0:1:2'],
    ['::1:2:3:4:5:6:7', '0:1:2:3'],
    ['2001::ffff:3', '2001:0:0:0'],
    ['::ffff:1:2', '0:0:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['', ''],
  ] as const)
    expect([address, networkOf(address)]).toEqual([address, network])
})

test('after any calls the totals are those of the connections that remain, and within the bounds', () => {
  const step = fc.record({
    kind: fc.constantFrom('add', 'keep', 'remove'),
    which: fc.nat(20),
    address: fc.constantFrom('a', 'b', 'c', 'd'),
    bytes: fc.nat(60),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const alive = new Map<Connection, number>()
      const undecided = new Undecided<Connection>({ connections: 6, bytes: 200 }, (gone) =>
        alive.delete(gone),
      )
      const made: Connection[] = []
      for (const { kind, which, address, bytes } of steps) {
        const known = made[which % Math.max(1, made.length)]
        if (kind === 'add') {
          const connection = { name: '', address }
          made.push(connection)
          alive.set(connection, 0)
          undecided.add(connection, address)
        } else if (known === undefined) continue
        else if (kind === 'remove') {
          alive.delete(known)
          undecided.remove(known)
        } else if (alive.has(known)) {
          alive.set(known, alive.get(known)! + bytes)
          undecided.keep(known, bytes)
        }
        expect(undecided.count).toBe(alive.size)
        expect(undecided.bytes).toBe([...alive.values()].reduce((sum, held) => sum + held, 0))
        expect(undecided.count).toBeLessThanOrEqual(6)
        expect(undecided.bytes).toBeLessThanOrEqual(200)
      }
    }),
  )
})
