/** JSON text for RPC replies: u64 values as bare integers, which JSON.stringify cannot write. */

/** Text that is JSON already and goes into a reply unchanged. */
export class RawJson {
  constructor(readonly text: string) {}
}

export function encodeJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof RawJson) return value.text
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(encodeJson).join(',')}]`
  const members: string[] = []
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(name)}:${encodeJson(member)}`)
  }
  return `{${members.join(',')}}`
}
