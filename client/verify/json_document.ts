/** Reads JSON documents and base64 strictly. */
import { fromHex } from '../../protocol/bytes'
import { strictJson } from '../../protocol/strict_json'
import { Refused } from './transcript'

/** Undefined for text that is not JSON or is nested too deeply. Of a repeated key it keeps the last. */
export function parseJson(text: string): unknown {
  return parsed(JSON.parse, text)
}

function parsed(parse: (text: string) => unknown, text: string): unknown {
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

/** @throws Refused unless the text is padded standard base64. */
export function decodeBase64(text: string): Uint8Array {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text))
    throw new Refused('a value is not base64')
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** Reads the fields of a JSON object by type. @throws Refused for a field of another type */
export class JsonObject {
  private constructor(
    private readonly fields: Record<string, unknown>,
    private readonly part: string,
  ) {}

  /** @throws Refused unless the text is one JSON object. */
  static parse(text: string, part: string): JsonObject {
    // The second of two equal demands would replace the first.
    const value = parsed(strictJson, text)
    if (value === undefined) throw new Refused(`${part} is not JSON, or repeats a key`)
    return JsonObject.of(value, part)
  }
  /** @throws Refused unless the value is one object. */
  static of(value: unknown, part: string): JsonObject {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new Refused(`${part} is not an object`)
    return new JsonObject(value as Record<string, unknown>, part)
  }

  has(field: string): boolean {
    return Object.hasOwn(this.fields, field)
  }
  isNull(field: string): boolean {
    return this.get(field) === null
  }
  /** @throws Refused for a field that is none of these: a misspelt demand would demand nothing. */
  only(fields: readonly string[]): void {
    const unknown = Object.keys(this.fields).find((field) => !fields.includes(field))
    if (unknown !== undefined) throw new Refused(`${this.part} has an unknown field ${unknown}`)
  }
  text(field: string): string {
    const value = this.get(field)
    return typeof value === 'string' ? value : this.refuse(field)
  }
  boolean(field: string): boolean {
    const value = this.get(field)
    return typeof value === 'boolean' ? value : this.refuse(field)
  }
  /** An integer from 0 to `max`. */
  integer(field: string, max = 0xffff_ffff): number {
    const value = this.get(field)
    if (typeof value !== 'number' || !Number.isInteger(value)) return this.refuse(field)
    return value >= 0 && value <= max ? value : this.refuse(field)
  }
  /** An integer from 0 to 2^53 - 1. */
  safeInteger(field: string): number {
    const value = this.get(field)
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : this.refuse(field)
  }
  /** Hex in either case, of exactly `width` bytes. */
  bytes(field: string, width: number): Uint8Array {
    return fromHex(this.text(field).toLowerCase(), width) ?? this.refuse(field)
  }
  /** Unix milliseconds of an RFC 3339 time in UTC and whole seconds. */
  time(field: string): number {
    const text = this.text(field)
    const unix_ms = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ? Date.parse(text) : Number.NaN
    if (Number.isNaN(unix_ms)) return this.refuse(field)
    // A day that does not exist would otherwise become one of the next month.
    return new Date(unix_ms).toISOString().startsWith(text.slice(0, -1)) ? unix_ms : this.refuse(field)
  }
  /** `read` of the field; undefined when it is absent. */
  optional<T>(field: string, read: (field: string) => T): T | undefined {
    return this.has(field) ? read(field) : undefined
  }
  object(field: string): JsonObject {
    return JsonObject.of(this.get(field), `${this.part} ${field}`)
  }
  objects(field: string): JsonObject[] {
    const value = this.get(field)
    if (!Array.isArray(value)) return this.refuse(field)
    return value.map((item) => JsonObject.of(item, `${this.part} ${field}`))
  }
  /** Absent means none. */
  texts(field: string): string[] {
    if (!this.has(field)) return []
    const value = this.get(field)
    if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) return this.refuse(field)
    return value
  }

  private get(field: string): unknown {
    return this.has(field) ? this.fields[field] : undefined
  }
  private refuse(field: string): never {
    throw new Refused(`${this.part} has no well formed ${field}`)
  }
}
