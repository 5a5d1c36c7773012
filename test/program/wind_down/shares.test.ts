/** Payments of a short wind-down: window claims their shares to the unit in any order, late claims the rest. */

import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { escapeClaimAddress, mintRecordAddress } from '../../../protocol/vault/addresses'
import { errorOf, landed } from '../../kit/vault/open_vault'
import { type OwnedNote, WindDown } from '../../kit/vault/wind_down'

const LARGEST = 2n ** 64n - 1n

/** A frozen vault that holds `base` for notes which claim `amounts`: the signer forged the excess. */
function short(base: bigint, amounts: readonly bigint[]): { down: WindDown; notes: OwnedNote[] } {
  const down = new WindDown()
  const notes = down.settle(amounts)
  down.freeze(down.deposit(base))
  return { down, notes }
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((all, one) => all + one, 0n)

function shareOf(amount: bigint, base: bigint, total: bigint): bigint {
  return base < total ? (amount * base) / total : amount
}

function ordersOf<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]]
  return items.flatMap((item, at) =>
    ordersOf(items.filter((_, other) => other !== at)).map((rest) => [item, ...rest]),
  )
}

/** A function that resets every account a payment changes. */
function keep({ vault, chain, bond_payer }: WindDown, notes: readonly OwnedNote[]): () => void {
  const record = mintRecordAddress(vault.program, vault.mint)
  const claims = notes.map(({ nullifier }) => escapeClaimAddress(vault.program, nullifier))
  const destinations = notes.map(({ destination }) => destination)
  const keys = [vault.vault_token, record, bond_payer.key, ...claims, ...destinations]
  const accounts = keys.map((key) => chain.svm.getAccount(addressOf(key)))
  return () => {
    for (const account of accounts) if (account.exists) chain.svm.setAccount(account)
  }
}

const CASES: readonly (readonly [name: string, base: bigint, amounts: readonly bigint[]])[] = [
  ['remainders', 10_000n, [3_333n, 3_334n, 7_001n, 1n]],
  ['dust beside a forgery', 10_000n, [1n, 2n, 40_000n, LARGEST]],
  ['a total beyond a u64', 999_983n, [LARGEST, LARGEST - 1n, LARGEST, 1_000_000n]],
  ['one unit more than there is', 10_000n, [5_000n, 5_001n]],
  ['exactly what there is', 10_000n, [5_000n, 4_999n, 1n]],
  ['more than is claimed', 10_000n, [1_234n, 1n]],
]

for (const [name, base, amounts] of CASES)
  test(`shares in every order: ${name}`, () => {
    const { down, notes } = short(base, amounts)
    for (const note of notes) landed(down.claiming(note))
    const total = sum(amounts)
    expect(down.chain.mintRecord(down.vault.mint).window_total).toBe(total)
    down.passTo(2)
    const undo = keep(down, notes)
    for (const order of ordersOf(notes)) {
      for (const note of order) landed(down.paying(note))
      expect(notes.map((note) => down.received(note))).toEqual(
        amounts.map((amount) => shareOf(amount, base, total)),
      )
      const record = down.chain.mintRecord(down.vault.mint)
      const paid = sum(amounts.map((amount) => shareOf(amount, base, total)))
      const dust = base < total ? base - paid : 0n
      expect(record).toMatchObject({ window_total: total, window_base: base, window_owed: dust })
      expect(dust).toBeLessThan(BigInt(amounts.length))
      undo()
    }
  }, 180_000)

/** Deterministic numbers below 2^32. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state
  }
}

test('shares of 40 random claims in random orders, queued payouts paid or refunded in between', () => {
  const next = numbers(7)
  const down = new WindDown()
  const amounts = Array.from({ length: 40 }, () => BigInt(1 + (next() % 100_000)))
  const notes = down.settle(amounts)
  const stopper = down.deposit(500_000n)
  down.queue(1_000n)
  const paid = down.queue(2_000n)
  down.freeze(stopper)
  for (const note of notes) landed(down.claiming(note))
  down.vault.setToken(paid.destination, { owner: down.challenger.key })
  down.passTo(2)
  const undo = keep(down, notes)
  const total = sum(amounts)
  const base = 500_000n - 3_000n
  expect(total).toBeGreaterThan(base)
  for (let round = 0; round < 4; round++) {
    const order = notes.map((note) => ({ note, at: next() })).sort((a, b) => a.at - b.at)
    for (const [at, { note }] of order.entries()) {
      if (round === 3 && at === 20) down.vault.pay()
      landed(down.paying(note))
    }
    expect(notes.map((note) => down.received(note))).toEqual(
      amounts.map((amount) => shareOf(amount, base, total)),
    )
    if (round < 3) undo()
  }
  expect(down.chain.mintRecord(down.vault.mint)).toMatchObject({ queued: 1_000n, window_base: base })
}, 180_000)

test('a donation before the first payment is shared; a later one is left for late claims', () => {
  const { down, notes } = short(10_000n, [15_000n, 15_000n])
  const [first, second] = notes as [OwnedNote, OwnedNote]
  for (const note of notes) landed(down.claiming(note))
  const holds = (amount: bigint) =>
    down.vault.setToken(down.vault.vault_token, { owner: down.chain.vault.config, amount })
  holds(12_000n)
  down.passTo(2)
  landed(down.paying(first))
  holds(1_006_000n)
  landed(down.paying(second))
  expect([down.received(first), down.received(second)]).toEqual([6_000n, 6_000n])
})

/** Late claims and window claims of a vault that holds 10,000. */
function late(
  window: bigint[],
  amounts: bigint[],
): { down: WindDown; early: OwnedNote[]; late: OwnedNote[] } {
  const { down, notes } = short(10_000n, [...window, ...amounts])
  const [early, after] = [notes.slice(0, window.length), notes.slice(window.length)]
  for (const note of early) landed(down.claiming(note))
  down.passTo(1)
  for (const note of after) landed(down.claiming(note))
  return { down, early, late: after }
}

test('the claim window ends one exit delay after the freeze, exclusive', () => {
  const { down, notes } = short(10_000n, [1n, 2n])
  down.passTo(1, -1)
  landed(down.claiming(notes[0]!))
  down.passTo(1)
  landed(down.claiming(notes[1]!))
  expect(notes.map((note) => down.claim(note)!.rank)).toEqual(['window', 'late'])
  expect(down.chain.mintRecord(down.vault.mint).window_total).toBe(1n)
})

test('a late claim waits for its own exit delay', () => {
  const { down, notes } = short(10_000n, [100n])
  down.passTo(1, 500)
  landed(down.claiming(notes[0]!))
  down.passTo(2, 499)
  expect(errorOf(down.paying(notes[0]!))).toBe('payment_not_due')
  down.passTo(2, 500)
  landed(down.paying(notes[0]!))
  expect(down.received(notes[0]!)).toBe(100n)
})

test('late claims get the rest after window claims, paid or not', () => {
  const { down, early, late: after } = late([6_000n], [3_999n, 2n, 1n])
  const [large, two, one] = after as [OwnedNote, OwnedNote, OwnedNote]
  down.passTo(2)
  landed(down.paying(large))
  expect(errorOf(down.paying(two))).toBe('payment_short')
  landed(down.paying(one))
  landed(down.paying(early[0]!))
  expect(errorOf(down.paying(two))).toBe('payment_short')
  expect([large, two, one, early[0]!].map((note) => down.received(note))).toEqual([3_999n, 0n, 1n, 6_000n])
})

test('late claims leave the amount of queued payouts', () => {
  const down = new WindDown()
  const [after] = down.settle([9_001n]) as [OwnedNote]
  const stopper = down.deposit(10_000n)
  down.queue(1_000n)
  down.freeze(stopper)
  down.passTo(1)
  landed(down.claiming(after))
  down.passTo(3)
  expect(errorOf(down.paying(after))).toBe('payment_short')
  landed(down.paying(after, true))
  expect(down.received(after)).toBe(9_000n)
  expect(down.vault.balance(down.vault.vault_token)).toBe(1_000n)
})

test('only its owner ends a late claim with less than its amount, also with nothing', () => {
  const { down, late: after } = late([9_000n], [5_000n, 700n])
  const [large, small] = after as [OwnedNote, OwnedNote]
  down.passTo(2)
  expect(errorOf(down.paying(large))).toBe('payment_short')
  const unsigned = down.payment(large, true)
  unsigned.accounts.at(-1)!.signer = false
  expect(errorOf(down.chain.send(unsigned))).toBe('missing_signature')
  const unasked = down.payment(large)
  unasked.accounts.at(-1)!.signer = true
  expect(errorOf(down.chain.send(unasked))).toBe('payment_short')
  landed(down.paying(large, true))
  expect(down.claim(large)).toMatchObject({ state: 'paid', amount: 5_000n, paid: 1_000n })
  const before = down.held(down.bond_payer.key)
  landed(down.paying(small, true))
  expect(down.claim(small)).toMatchObject({ state: 'paid', paid: 0n })
  expect(down.received(small)).toBe(0n)
  expect(down.held(down.bond_payer.key)).toBeGreaterThan(before)
})

test('a challenge before the first payment takes a claim out of the shares, a later one leaves its share to late claims', () => {
  for (const when of ['before', 'after'] as const) {
    const down = new WindDown()
    const [honest, spent, after] = down.settle([10_000n, 10_000n, 4_000n]) as [
      OwnedNote,
      OwnedNote,
      OwnedNote,
    ]
    down.settle([], [spent])
    down.freeze(down.deposit(10_000n))
    for (const note of [honest, spent]) landed(down.claiming(note))
    down.passTo(1)
    landed(down.claiming(after))
    if (when === 'before') landed(down.challenging(spent))
    down.passTo(2)
    landed(down.paying(honest))
    if (when === 'after') landed(down.challenging(spent))
    const share = when === 'before' ? 10_000n : 5_000n
    expect([when, down.received(honest)]).toEqual([when, share])
    if (when === 'before') expect(errorOf(down.paying(after))).toBe('payment_short')
    else {
      landed(down.paying(after))
      expect(down.received(after)).toBe(4_000n)
    }
    expect(down.chain.mintRecord(down.vault.mint).window_owed).toBe(0n)
  }
})

test('forged claims beyond the liabilities lower them to zero and block no claim', () => {
  const { down, notes } = short(10_000n, [LARGEST, 10_000n])
  const holds = (amount: bigint) =>
    down.vault.setToken(down.vault.vault_token, { owner: down.chain.vault.config, amount })
  for (const note of notes) landed(down.claiming(note))
  holds(1_000_000n)
  down.passTo(2)
  landed(down.paying(notes[0]!))
  expect(down.chain.mintRecord(down.vault.mint).liabilities).toBe(0n)
  landed(down.paying(notes[1]!))
  expect(down.received(notes[1]!)).toBe(shareOf(10_000n, 1_000_000n, LARGEST + 10_000n))
})

test('a payout that is refunded after the freeze keeps its rank: its note is claimed late and paid in full', () => {
  for (const refunded_at of [0, 1, 2, 3]) {
    const down = new WindDown()
    const [forged] = down.settle([40_000n]) as [OwnedNote]
    const stopper = down.deposit(20_000n)
    const payout = down.queue(5_000n)
    down.freeze(stopper)
    for (const note of [forged, stopper]) landed(down.claiming(note))
    down.passTo(refunded_at)
    if (refunded_at === 3) landed(down.paying(forged))
    const [paid] = down.vault.pay()
    expect(paid?.outcome).toBe('destination_missing')
    const refund = payout.refundAt(paid!.refund!.leaf_index)
    landed(down.claiming(refund))
    expect(down.claim(refund)!.rank).toBe('refund')
    expect(down.chain.mintRecord(down.vault.mint)).toMatchObject({
      liabilities: 15_000n - (refunded_at === 3 ? 10_000n : 0n),
      queued: 5_000n,
      window_total: 60_000n,
    })
    down.passTo(6)
    if (refunded_at < 3) landed(down.paying(forged))
    landed(down.paying(stopper))
    landed(down.paying(refund))
    expect([down.received(forged), down.received(stopper), down.received(refund)]).toEqual([
      10_000n,
      5_000n,
      5_000n,
    ])
    expect(down.vault.balance(down.vault.vault_token)).toBe(0n)
    expect(down.chain.mintRecord(down.vault.mint)).toMatchObject({ liabilities: 0n, queued: 0n })
  }
}, 120_000)

test('a refund note after the freeze is in no batch, even if the signer listed it before', () => {
  const down = new WindDown()
  const stopper = down.deposit(20_000n)
  const payout = down.queue(5_000n)
  const leaf_index = down.vault.tree.leaf_count
  down.vault.settle({ nullifiers: [payout.refundAt(leaf_index).nullifier] })
  down.freeze(stopper)
  down.vault.pay()
  const refund = payout.refundAt(leaf_index)
  landed(down.claiming(refund))
  expect(errorOf(down.challenging(refund))).toBe('invalid_spent_proof')
})

const SOURCE = join(import.meta.dir, '../../../program/src/mint_record.rs')

/** The function's body from `shared` on, with the width of the types halved three times. */
function reduced(source: string): string {
  const body = /let shared = u128.*?\n {8}share\n/s.exec(source)![0]
  const narrow = body
    .replace('get!(self.0, window_base)', 'base')
    .replace('(0, 0, 64)', '(0u8, 0u16, 8)')
    .replaceAll('u128', 'u16')
    .replaceAll('u64', 'u8')
  return `fn window_share(amount: u8, base: u8, total: u16) -> u8 {\n${narrow}}
fn main() {
    let mut tried = 0u64;
    // The bound of the source, 2^127, is 2^15 here; in between, totals differ in nothing that the steps see.
    for total in (1..2_100u16).chain(32_600..32_768) {
        for amount in 1..=total.min(255) as u8 {
            for base in 0..=255u8 {
                let due = u64::from(amount) * u64::from(u16::from(base).min(total)) / u64::from(total);
                assert_eq!(u64::from(window_share(amount, base, total)), due, "{amount} {base} {total}");
                tried += 1;
            }
        }
    }
    println!("{tried}");
}
`
}

function build(folder: string): string | undefined {
  const rustc = Bun.which('rustc')
  if (rustc === null) return 'rustc is not installed'
  const path = join(folder, 'window_share.rs')
  writeFileSync(path, reduced(readFileSync(SOURCE, 'utf8')))
  const args = ['--edition=2021', '-Copt-level=3', '-Coverflow-checks=on', '-o', join(folder, 'window_share')]
  const { exitCode, stderr } = Bun.spawnSync([rustc, ...args, path], { stderr: 'pipe' })
  const text = stderr.toString()
  if (/can't find crate for `std`|linker `.*` not found/.test(text))
    return 'rustc builds nothing for this machine'
  expect([exitCode, text]).toEqual([0, expect.any(String)])
  return undefined
}

test('every share of a small wind-down is the floor of its part, and no step overflows', () => {
  const folder = mkdtempSync(join(tmpdir(), 'window-share-'))
  try {
    const missing = build(folder)
    if (missing !== undefined) return console.log(`shares are not tried exhaustively here: ${missing}`)
    const { exitCode, stdout, stderr } = Bun.spawnSync([join(folder, 'window_share')], { stderr: 'pipe' })
    expect([exitCode, stderr.toString()]).toEqual([0, ''])
    expect(Number(stdout.toString())).toBe(139_699_200)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}, 120_000)
