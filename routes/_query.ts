/** The query of a request as an object of text; a name given twice is refused. */
import { Refusal } from '../protocol/refusals'

export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf('?')
  if (start === -1) return {}
  const text = url.slice(start + 1)
  const query: Record<string, string> = Object.create(null)
  if (ENCODED.test(text)) {
    for (const [name, value] of new URLSearchParams(text)) put(query, name, value)
    return query
  }
  for (const pair of text.split('&')) {
    const end = pair.indexOf('=')
    if (end !== -1) put(query, pair.slice(0, end), pair.slice(end + 1))
    else if (pair !== '') put(query, pair, '')
  }
  return query
}

/** What URLSearchParams would decode; ids, keys and numbers have none of it, and need no more than cutting. */
const ENCODED = /[^A-Za-z0-9_=&.~-]/

function put(query: Record<string, string>, name: string, value: string): void {
  if (name in query) throw new Refusal('key_duplicate')
  query[name] = value
}
