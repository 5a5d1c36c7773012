/** One venue with live orders and deposits, on which each refusal is provoked once. */
import { expect, test } from 'bun:test'
import type { RefusalCode } from '../../../protocol/refusals'
import type * as wire from '../../../protocol/wire/trading'
import { TestSite, type TestVenue } from './open_test_venue'
import { refusalOf } from './refusal_of'
import { type Deposit, Trader } from './trader'

/** The request, the code it must end in, and the field the refusal must name. */
export type Case = [what: string, code: RefusalCode, attempt: () => Promise<unknown>, field?: string]

export class RefusalSite {
  readonly site = new TestSite()
  open!: TestVenue
  alice!: Trader
  bob!: Trader
  money!: Deposit
  goods!: Deposit
  small!: Deposit
  /** An order of alice that rests. */
  live!: wire.PlaceRequest

  async prepare(): Promise<void> {
    this.open = await this.site.open()
    this.alice = await Trader.provisioned(this.open, 'alice')
    this.bob = await Trader.provisioned(this.open, 'bob')
    this.money = this.alice.deposit('quote', 200_000_000n)
    this.goods = this.alice.deposit('base', 5_000_000_000n)
    this.small = this.alice.deposit('quote', 5_000n)
    const backing = this.alice.deposit('quote', 200_000_000n)
    await this.open.chain.finalizeLeaves()
    this.live = this.alice.place(backing)
    await this.open.venue.place('alice', this.live)
  }

  place(change: Partial<wire.CheckRequest> = {}, deposit = this.money): Promise<unknown> {
    return this.open.venue.place('alice', this.alice.place(deposit, change))
  }

  /** A body changed after signing, as no client would send it. */
  bent(change: Record<string, unknown>): Promise<unknown> {
    return this.open.venue.place('alice', { ...this.alice.place(this.money), ...change } as wire.PlaceRequest)
  }

  without(name: string): Promise<unknown> {
    const request: Record<string, unknown> = { ...this.alice.place(this.money) }
    delete request[name]
    return this.open.venue.place('alice', request as wire.PlaceRequest)
  }
}

export function testCases(cases: Case[]): void {
  for (const [what, code, attempt, field] of cases) {
    test(`${what} answers ${code}`, async () => {
      const refusal = await refusalOf(attempt())
      expect(refusal.code).toBe(code)
      if (field !== undefined) expect(refusal.facts.field).toBe(field)
    })
  }
}
