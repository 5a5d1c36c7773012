/** Whether JSON from outside has the fields that code relies on. */
import { Refused } from './refused'

/** Field to type; numbers are safe integers. */
export type Form = { readonly [field: string]: 'string' | 'number' | Form }

/** Further fields are ignored. @throws Refused naming the first field that is absent or of another type. */
export function requireForm(value: unknown, form: Form): void {
  if (typeof value !== 'object' || value === null) throw new Refused('an answer is not an object')
  for (const [field, expected] of Object.entries(form)) {
    const member = (value as Record<string, unknown>)[field]
    if (typeof expected === 'object') requireForm(member, expected)
    else if (typeof member !== expected || (expected === 'number' && !Number.isSafeInteger(member)))
      throw new Refused(`an answer has no well formed ${field}`)
  }
}
