/** Compares a parsed value with the form that it must have, and names the place of every difference. */
import type { Form, Mapping } from '../../../protocol/tdx/venue_manifest'
import { printable } from '../transcript'

/**
 * @param value of JSON, or of plain YAML with its maps.
 * @param place names the value in messages; empty for the whole.
 * @returns one line per difference
 */
export function mismatches(value: unknown, form: Form, place: string): string[] {
  if (form === null || typeof form !== 'object')
    return value === form ? [] : [fault(place, form === null ? 'must be empty' : `must be ${shown(form)}`)]
  if (isList(form)) return listMismatches(value, form, place)
  switch (form.kind) {
    case 'one_of':
      return form.values.some((one) => one === value)
        ? []
        : [fault(place, `must be ${form.values.map(shown).join(' or ')}`)]
    case 'pattern':
      return typeof value === 'string' && form.pattern.test(value)
        ? []
        : [fault(place, `must be ${form.meaning}`)]
    case 'each':
      if (!Array.isArray(value)) return [fault(place, 'must be a list')]
      return value.flatMap((item, at) => mismatches(item, form.item, `${place}[${at}]`))
    case 'mapping':
      return mappingMismatches(value, form, place)
  }
}

const isList = (form: object): form is readonly Form[] => Array.isArray(form)

function listMismatches(value: unknown, form: readonly Form[], place: string): string[] {
  if (!Array.isArray(value) || value.length !== form.length) {
    const items = form.some((item) => typeof item === 'object') ? `${form.length} entries` : shown(form)
    return [fault(place, `must be a list of exactly ${items}`)]
  }
  return form.flatMap((item, at) => mismatches(value[at], item, `${place}[${at}]`))
}

function mappingMismatches(value: unknown, form: Mapping, place: string): string[] {
  const entries = entriesOf(value)
  if (entries === undefined) return [fault(place, 'must be a mapping')]
  const found = new Set(entries.map(([key]) => key))
  const missing = Object.keys(form.keys).filter((key) => !found.has(key) && !form.optional.includes(key))
  return [
    ...entries.flatMap(([key, inner]) => {
      const expected = Object.hasOwn(form.keys, key) ? form.keys[key] : undefined
      if (expected === undefined) return [fault(below(place, key), 'not an allowed key')]
      return mismatches(inner, expected, below(place, key))
    }),
    ...missing.map((key) => fault(below(place, key), 'missing')),
  ]
}

function entriesOf(value: unknown): [string, unknown][] | undefined {
  if (value instanceof Map) return [...value]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.entries(value)
}

const fault = (place: string, demand: string): string => (place === '' ? demand : `${place}: ${demand}`)
const below = (place: string, key: string): string => {
  const name = /^[\w.-]{1,64}$/.test(key) ? key : quoted(key)
  if (place === '') return name
  return place.endsWith(': ') ? `${place}${name}` : `${place}.${name}`
}
const shown = (value: unknown): string => JSON.stringify(value)

/** Quoted, cut, and printable: the text of a manifest ends on terminals. */
export const quoted = (text: string): string => printable(JSON.stringify(text.slice(0, 64)))
