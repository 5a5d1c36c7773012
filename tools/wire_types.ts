/** Writes the types of a wire module out of its schemas, so the package's types need no schema library. */
type Schema = {
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  allOf?: Schema[]
  items?: Schema | Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  patternProperties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  description?: string
}

const TYPE = /^export type (\w+)(<\w+>)? = (.*)$/
const STATIC = /Static<typeof (\w+)>/g
const MEMBER = /^\(typeof (\w+)\)\[number\]$/
const ALIAS = /^ {2}(\w+) as (\w+),$/gm

/** @param source text of the module @param values its exports, and those of the modules that it imports from */
export function wireTypes(source: string, values: Record<string, unknown>): string {
  const aliases = new Map([...source.matchAll(ALIAS)].map(([, name = '', alias = '']) => [alias, name]))
  const schemaOf = (name: string) => values[aliases.get(name) ?? name] as Schema
  const lines: string[] = []
  for (const line of source.split('\n')) {
    if (line.startsWith('export type *')) lines.push(line)
    const [, name, parameter = '', text = ''] = TYPE.exec(line) ?? []
    if (name === undefined) continue
    const [, list] = MEMBER.exec(text) ?? []
    const members =
      list === undefined ? undefined : (values[list] as unknown[]).map((one) => JSON.stringify(one))
    const type = members?.join(' | ') ?? text.replace(STATIC, (_, schema) => typeOf(schemaOf(schema), ''))
    lines.push(`export type ${name}${parameter} = ${type}`)
  }
  return `${lines.join('\n')}\n`
}

function typeOf(schema: Schema, indent: string): string {
  const union = (schemas: Schema[], by: string) => schemas.map((one) => typeOf(one, indent)).join(by)
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  if (schema.anyOf !== undefined) return `(${union(schema.anyOf, ' | ')})`
  if (schema.allOf !== undefined) return `(${union(schema.allOf, ' & ')})`
  switch (schema.type) {
    case 'integer':
      return 'number'
    case 'array':
      if (Array.isArray(schema.items)) return `[${union(schema.items, ', ')}]`
      return `${typeOf(schema.items!, indent)}[]`
    case 'object':
      return objectOf(schema, indent)
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return schema.type
    default:
      return 'unknown'
  }
}

function objectOf(schema: Schema, indent: string): string {
  const [pattern] = Object.values(schema.patternProperties ?? {})
  if (pattern !== undefined) return `Record<string, ${typeOf(pattern, indent)}>`
  const inner = `${indent}  `
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => [
    comment(one.description, inner),
    `${inner}${name}${schema.required?.includes(name) ? '' : '?'}: ${typeOf(one, inner)}`,
  ])
  return `{\n${members.filter((line) => line !== '').join('\n')}\n${indent}}`
}

const comment = (text: string | undefined, indent: string): string =>
  text === undefined ? '' : `${indent}/** ${text.replaceAll('*/', '* /')} */`
