/** The parts of `expect` that the kit needs, outside of a test. */
import { deepStrictEqual } from 'node:assert'

export const expect = (found: unknown) => ({
  toBe: (wanted: unknown) => deepStrictEqual(found, wanted),
  toEqual: (wanted: unknown) => deepStrictEqual(found, wanted),
  toHaveLength: (wanted: number) => deepStrictEqual((found as unknown[]).length, wanted),
})
