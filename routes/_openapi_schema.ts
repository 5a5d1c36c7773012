/** Rewrites TypeBox schemas into the dialect of OpenAPI 3.0.3: no `const`, no `null` type, query integers as integers. */

export type Json = { [name: string]: unknown }

/** Answers may gain fields, so a reader must not take their list as closed; what only concerns requests is left out. */
export function openSchema(schema: Json): Json {
  return JSON.parse(
    JSON.stringify(schema, (name, value) => {
      if (name === 'additionalProperties' && value === false) return undefined
      return name === 'x-refusal' ? undefined : value
    }),
  )
}

export function fixSchema(schema: Json): Json {
  const { 'x-maximum': maximum, ...rest } = schema
  if (maximum !== undefined) return integer(rest, 1, maximum as number)
  if (rest['format'] === 'safe-integer') return integer(rest, 0, Number.MAX_SAFE_INTEGER)
  if ('const' in rest) {
    const { const: only, ...others } = rest
    return { ...others, enum: [only] }
  }
  if (Array.isArray(rest['anyOf'])) return fixUnion(rest as Json & { anyOf: Json[] })
  return Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, fixKeyword(name, value)]))
}

function fixKeyword(name: string, value: unknown): unknown {
  if (name === 'items') return fixSchema(value as Json)
  if (name === 'properties') {
    const fields = Object.entries(value as Record<string, Json>)
    return Object.fromEntries(fields.map(([field, schema]) => [field, fixSchema(schema)]))
  }
  return value
}

function fixUnion({ anyOf, ...rest }: Json & { anyOf: Json[] }): Json {
  const members = anyOf.filter((member) => member['type'] !== 'null')
  const nullable = members.length < anyOf.length ? { nullable: true } : {}
  if (members.every((member) => 'const' in member)) {
    return { ...rest, type: 'string', enum: members.map((member) => member['const']), ...nullable }
  }
  if (members.length === 1) return { ...fixSchema(members[0]!), ...rest, ...nullable }
  return { ...rest, anyOf: members.map(fixSchema), ...nullable }
}

function integer({ description }: Json, minimum: number, maximum: number): Json {
  return { type: 'integer', minimum, maximum, ...(description === undefined ? {} : { description }) }
}
