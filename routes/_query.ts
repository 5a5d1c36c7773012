/** The query of a request as an object of text; a name given twice is refused. */
import { Refusal } from '../protocol/refusals'

export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf('?')
  if (start === -1) return {}
  const query: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (name in query) throw new Refusal('key_duplicate')
    query[name] = value
  }
  return query
}
