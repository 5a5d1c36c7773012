/** Explains how the table of rows and the route files differ: which line to add, remove or change. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { MANIFEST } from '../../server/manifest'
import type { Answered, Harness } from '../kit/server/harness'
import { HASH, KEY, ORDER_ID, SIGNATURE } from '../routes/bodies'
import { against, contractOf, ELSEWHERE, endpointOf, ROWS, type Row } from './rows'

const TABLE = 'test/routes/rows.ts'
const BELONGS_ELSEWHERE =
  'A route belongs in ELSEWHERE of test/routes/rows.ts, with a test file instead of a row, if it answers a page or a ' +
  'file, or if its handler calls more than one method of the venue or the enclave.'

/** One paragraph per difference between the table and the manifest. */
export async function tableProblems(): Promise<string[]> {
  const endpoints = MANIFEST.filter(({ route }) => route.kind === 'endpoint')
  const rows = ROWS.map(({ endpoint }) => endpoint)
  const problems: string[] = []
  for (const { method, path } of endpoints) {
    const name = `${method} ${path}`
    const entries = [...rows, ...ELSEWHERE].filter((entry) => entry === name).length
    if (entries === 0) problems.push(await missing(name))
    if (entries > 1)
      problems.push(`${name} is listed ${entries} times in ROWS and ELSEWHERE; keep one entry.`)
  }
  for (const name of rows.filter((entry) => endpointOf(entry) === undefined)) {
    problems.push(
      `The row '${name}' in ROWS of ${TABLE} fits no route: there is no ${fileOf(name)}. Remove the row, or correct its name.`,
    )
  }
  for (const name of ELSEWHERE.filter((entry) => endpointOf(entry) === undefined)) {
    problems.push(
      `'${name}' in ELSEWHERE of test/routes/rows.ts fits no route: there is no ${fileOf(name)}. Remove it, or correct it.`,
    )
  }
  return problems
}

/** Why the answer to a row is not the expected one; shown when it is not. */
export function explained(row: Row, { status, json }: Answered, harness: Harness): string {
  const { contract } = contractOf(row)
  return `The row '${row.endpoint}' in ROWS of ${TABLE} does not fit ${fileOf(row.endpoint)}: ${reason()}`

  function reason(): string {
    const [call] = harness.unexpected
    const [line = ''] = harness.lines
    if (call !== undefined) {
      return `the handler calls ${call}, which the row does not give. Write \`${methodField(call)}\`. ${BELONGS_ELSEWHERE}`
    }
    if (line.includes('"answer_undeclared"')) {
      const { field } = JSON.parse(line) as { field: string }
      return `the handler's answer, made from \`gives\`, is not what the contract declares at \`${field}\`. Correct \`gives\`, or the schema of the answer.`
    }
    if (status >= 500) return `the handler throws: ${line}. Correct it, or \`gives\`. ${BELONGS_ELSEWHERE}`
    if (status >= 400) {
      const field = json.field === undefined ? '' : ` at \`${json.field}\``
      return `its request is rejected with ${status} ${json.code}${field}. Correct \`path\` or \`json\`.`
    }
    if (status !== row.status) return `the contract declares status ${status}. Write \`status: ${status}\`.`
    return 'answers' in row || !Value.Check(bodyOf(contract.answer), json)
      ? 'the answer differs as shown below. Correct `answers`, or the handler.'
      : 'the answer is not `gives` itself. If that is intended, write `answers: { ... }` with what is received below.'
  }
}

export async function missing(name: string): Promise<string> {
  const { contract } = contractOf({ endpoint: name } as Row)
  const found = `${fileOf(name)} has no row.`
  const elsewhere = `add '${name}' to ELSEWHERE in test/routes/rows.ts and write a test file for it`
  if ('text' in contract.answer) return `${found} It answers a page or a file: ${elsewhere}.`
  const row = templateRow(name)
  const { gives, ...request } = row
  const { call } = await triedWith(row, gives)
  if (call === undefined) return added(found, { ...request, answers: gives })
  const complete = { ...row, ...fieldsOf(call) }
  const { call: next } = await triedWith(complete, gives)
  if (next !== undefined) return `${found} Its handler calls ${call} and ${next}: ${elsewhere}.`
  const is_object = typeof gives === 'object' && !Array.isArray(gives)
  const { status } = await triedWith(complete, is_object ? { ...gives, undeclared: '' } : undefined)
  return added(found, { ...complete, ...(status === row.status ? { picks: true as const } : {}) })
}

function added(found: string, row: Row): string {
  return `${found} Add this line to ROWS in ${TABLE}, and correct its sample values where the next run says so:

  ${rowText(row)}

${BELONGS_ELSEWHERE}`
}

/** A row with sample values that fit the contract as far as its schemas alone say it. */
function templateRow(name: string): Row {
  const { contract } = contractOf({ endpoint: name } as Row)
  const known = new Map(ROWS.flatMap(({ endpoint, path }) => paramsOf(endpoint, path)))
  const samples = sample(contract.params) as Record<string, string> | undefined
  const path = name.split(' ')[1]!.replace(/\{([^}]+)\}/g, (_, param: string) => {
    return known.get(param) ?? samples?.[param] ?? param
  })
  const query = new URLSearchParams(sample(contract.query) as Record<string, string> | undefined).toString()
  return {
    endpoint: name,
    path: query === '' ? path : `${path}?${query}`,
    ...(contract.body === undefined ? {} : { json: sample(contract.body) }),
    status: contract.answer.status,
    ...(contract.bearer === true ? {} : { open: true as const }),
    gives: sample(bodyOf(contract.answer)),
  }
}

/** Status of a row's answer, and the first call its handler makes that the row does not give, such as `venue.place`. */
async function triedWith(row: Row, gives: unknown): Promise<{ status: number; call: string | undefined }> {
  let tried = { status: 0, call: undefined as string | undefined }
  await against(
    row,
    () => gives,
    async ({ unexpected }, send) => {
      tried = { status: (await send()).status, call: unexpected[0] }
    },
  )
  return tried
}

function rowText({ endpoint, path, status, ...rest }: Row): string {
  const fields = {
    ...(path === endpoint.split(' ')[1] ? {} : { path }),
    ...(status === 200 ? {} : { status }),
    ...rest,
  }
  return `row('${endpoint}', ${literal(fields)}),`
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).filter(([, field]) => field !== undefined)
    const texts = fields.map(
      ([name, field]) => `${/^\w+$/.test(name) ? name : literal(name)}: ${literal(field)}`,
    )
    return `{ ${texts.join(', ')} }`
  }
  return typeof value === 'string' ? `'${value}'` : String(value)
}

/** `venue.own.orders` is `own: 'orders'` in a row. */
function fieldsOf(call: string): Partial<Row> {
  const [owner, method] = [call.slice(0, call.lastIndexOf('.')), call.slice(call.lastIndexOf('.') + 1)]
  return { [owner === 'venue.own' ? 'own' : owner]: method }
}
const methodField = (call: string): string => literal(fieldsOf(call)).slice(2, -2)

function paramsOf(endpoint: string, path: string): [string, string][] {
  const places = endpoint.split(' ')[1]!.split('/')
  const values = path.split('?')[0]!.split('/')
  return places
    .flatMap((place, at) => (place.startsWith('{') ? [[place.slice(1, -1), values[at]!] as const] : []))
    .map(([name, value]) => [name, value])
}

const bodyOf = (answer: object): TSchema => (answer as { body: TSchema }).body

/** A value that fits the schema, required fields only; a string that no known sample fits becomes `...`. */
function sample(schema: TSchema | undefined): unknown {
  if (schema === undefined) return undefined
  if ('const' in schema) return schema['const']
  if (schema['anyOf'] !== undefined) return sample((schema['anyOf'] as TSchema[])[0])
  switch (schema['type']) {
    case 'object': {
      const required = (schema['required'] ?? []) as string[]
      return Object.fromEntries(required.map((name) => [name, sample(schema['properties'][name])]))
    }
    case 'array':
      return [sample(schema['items'])]
    case 'string':
      return (
        ['text', 'SOL-USDC', '1', KEY, ORDER_ID, HASH, SIGNATURE].find((text) => Value.Check(schema, text)) ??
        '...'
      )
    case 'integer':
    case 'number':
      return Math.max(1, schema['minimum'] ?? 1)
    case 'boolean':
      return true
    default:
      return null
  }
}

/** `get /orders/{order_id}` is the file routes/orders/[order_id].get.ts. */
function fileOf(name: string): string {
  const [method, path] = name.split(' ') as [string, string]
  return `routes${path.replace(/\{([^}]+)\}/g, '[$1]')}.${method}.ts`
}
