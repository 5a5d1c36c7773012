/** A JSON Schema as a table of fields, nested ones below their parent. */
import type { Json } from './_openapi_schema'
import { type Html, html, join, raw } from './_reference_html'

const DEPTH_MAX = 2

/** `depth` counts what is already above; at DEPTH_MAX fields are named but not opened. */
export function schemaTable(schema: Json, depth = 0): Html {
  const list = schema['type'] === 'array' ? (schema['items'] as Json | undefined) : undefined
  if (list !== undefined) return html`<p class="note">Array of:</p>${schemaTable(list, depth)}`
  const branches = schema['anyOf'] as Json[] | undefined
  if (branches !== undefined) {
    return join(branches.map((branch) => html`<p class="note">One of:</p>${schemaTable(branch, depth)}`))
  }
  const fields = schema['properties'] as Record<string, Json> | undefined
  if (fields === undefined) return html`<p><code>${typeOf(schema)}</code></p>`
  const required = (schema['required'] as string[] | undefined) ?? []
  const rows = Object.entries(fields).map(([name, field]) =>
    fieldRow(name, field, required.includes(name), depth),
  )
  return html`<table><tbody>${join(rows)}</tbody></table>`
}

/** The names of an answer's fields, optional ones marked; their forms stand in the OpenAPI document. */
export function fieldList(schema: Json): Html {
  if (schema['type'] === 'array') return html`array of ${fieldList(schema['items'] as Json)}`
  const branches = schema['anyOf'] as Json[] | undefined
  if (branches !== undefined) return join(branches.map((branch) => html`one of ${fieldList(branch)}<br>`))
  const fields = Object.keys((schema['properties'] as Json | undefined) ?? {})
  if (fields.length === 0) return html`<code>${typeOf(schema)}</code>`
  const required = (schema['required'] as string[] | undefined) ?? []
  return join(fields.map((name) => html`<code>${name}${required.includes(name) ? '' : '?'}</code> `))
}

function fieldRow(name: string, field: Json, required: boolean, depth: number): Html {
  const inner = field['type'] === 'array' ? (field['items'] as Json) : field
  const nested = inner['properties'] !== undefined || inner['anyOf'] !== undefined
  return html`<tr><td><code>${name}</code></td><td>${typeOf(field)}${required ? '' : ', optional'}</td><td>${
    (field['description'] as string | undefined) ?? ''
  }${nested && depth < DEPTH_MAX ? schemaTable(inner, depth + 1) : raw('')}</td></tr>`
}

function typeOf(schema: Json): string {
  const words = schema['enum'] as unknown[] | undefined
  if (words !== undefined) return words.map((word) => JSON.stringify(word)).join(' | ')
  if (schema['anyOf'] !== undefined) return 'one of several shapes'
  const type = String(schema['type'] ?? 'any')
  const named = type === 'array' ? `array of ${typeOf(schema['items'] as Json)}` : type
  return schema['nullable'] === true ? `${named} or null` : named
}
