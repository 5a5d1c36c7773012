/** The price levels of an account against a plain list of its orders. Failures print their seed. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { PriceLevels } from '../../../engine/machine/state/exposure'

const steps = fc.array(
  fc.record({ ticks: fc.integer({ min: 1, max: 60 }), grows: fc.integer({ min: 0, max: 9 }) }),
  {
    maxLength: 400,
  },
)

test('lowest and highest are those of the orders there are, one left out', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 2 ** 31 - 60 }), (drawn, base) => {
      const levels = new PriceLevels()
      const orders: number[] = []
      drawn.forEach(({ ticks, grows }, at) => {
        const gone = orders.length > 0 && grows < (at < drawn.length / 2 ? 3 : 7)
        if (gone) levels.remove(orders.splice((ticks * 7) % orders.length, 1)[0]!)
        else {
          orders.push(base + ticks)
          levels.add(base + ticks)
        }
        expect(levels.size).toBe(new Set(orders).size)
        for (const except of [undefined, base + ticks, Math.min(...orders), Math.max(...orders)]) {
          const others = [...orders]
          if (except !== undefined && others.includes(except)) others.splice(others.indexOf(except), 1)
          expect(levels.lowest(except)).toBe(others.length === 0 ? undefined : Math.min(...others))
          expect(levels.highest(except)).toBe(others.length === 0 ? undefined : Math.max(...others))
        }
      })
      for (const ticks of orders) levels.remove(ticks)
      expect(levels.size).toBe(0)
      expect(() => levels.remove(base)).toThrow('no order lies at this price')
    }),
    { numRuns: 100 },
  )
})
