/** The reference: a golden OpenAPI document, every status declared, and a page that loads nothing from elsewhere. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import schema from '@asyncapi/specs/schemas/3.0.0.json'
import Ajv from 'ajv'
import { REFUSAL_BY_CODE, REFUSALS } from '../../protocol/refusals'
import { EventKind } from '../../protocol/wire/trading'
import { declaredRefusals } from '../../server/edge/declared'
import { COST } from '../../server/edge/rate'
import type { Documents } from '../../server/edge/services'
import { MANIFEST } from '../../server/manifest'
import type { Json, OpenApi } from '../../server/reference/openapi'
import { openDocuments } from '../../server/reference/page'
import { expectGolden } from '../kit/golden'
import { type Harness, openHarness } from '../kit/server/harness'

let documents: Documents
let document: OpenApi
let harness: Harness
beforeAll(async () => {
  documents = await openDocuments('0.0.0')
  document = JSON.parse(documents.json)
  harness = openHarness({ options: { documents } })
})
afterAll(() => harness.stop())

describe('the OpenAPI document', () => {
  test('is the golden one', () => {
    expectGolden('openapi.json', document)
  })

  test('states the cost of each kind of operation', () => {
    const { description } = (document as unknown as { info: { description: string } }).info
    for (const cost of Object.values(COST)) expect(description).toMatch(new RegExp(` ${cost}[,.]`))
  })

  test('declares every route of the manifest, and no path or method that OpenAPI does not know', () => {
    for (const { method, path } of MANIFEST) expect(document.paths[path]?.[method]).toBeDefined()
    const methods = Object.values(document.paths).flatMap((path) => Object.keys(path))
    expect(new Set(methods)).toEqual(new Set(['get', 'post', 'put', 'delete']))
    expect(Object.keys(document.paths).filter((path) => /[*:]/.test(path))).toEqual([])
  })

  test('declares every status a route can give, with a schema', () => {
    for (const { method, path, route } of MANIFEST) {
      const { responses } = document.paths[path]![method]!
      const statuses = declaredRefusals(route).map((code) => String(REFUSAL_BY_CODE.get(code)!.status))
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(statuses))
      for (const [status, { content, description }] of Object.entries(responses)) {
        expect(description).not.toBe('')
        if (status !== '101') expect(Object.values(content!)[0]!.schema).toBeDefined()
      }
    }
  })

  test('declares each content type that is answered, JSON as an object', () => {
    const answered = (path: string) =>
      Object.entries(document.paths[path]!['get']!.responses['200']!.content!)
    const typesOf = (path: string) => answered(path).map(([type, { schema }]) => [type, schema['type']])
    expect(typesOf('/evidences/{file}')).toEqual([
      ['application/json', 'object'],
      ['application/x-pem-file', 'string'],
      ['text/plain', 'string'],
    ])
    expect(typesOf('/swagger/json')).toEqual([['application/json', 'object']])
  })

  test('has a parameter for each name in a path, and unique operation ids', () => {
    const ids: string[] = []
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const operation of Object.values(methods)) {
        ids.push(operation.operationId)
        const named = [...path.matchAll(/\{(.+?)\}/g)].map(([, name]) => name!)
        const declared = (operation.parameters ?? []).filter(({ in: place }) => place === 'path')
        expect(declared.map(({ name }) => name)).toEqual(named)
      }
    }
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('gives the meaning of every field of requests, answers and frames', () => {
    const silent = new Set<string>()
    const visit = (schema: Json, path: string): void => {
      for (const list of [schema['anyOf'], schema['oneOf']])
        for (const member of (list as Json[] | undefined) ?? []) visit(member, path)
      if (schema['items'] !== undefined) visit(schema['items'] as Json, path)
      for (const [name, field] of Object.entries(
        (schema['properties'] as Record<string, Json> | undefined) ?? {},
      )) {
        if (field['description'] === undefined) silent.add(`${path}.${name}`)
        visit(field, `${path}.${name}`)
      }
    }
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const { requestBody, responses } of Object.values(methods)) {
        for (const { content } of [requestBody ?? {}, ...Object.values(responses)])
          for (const { schema } of Object.values(content ?? {})) visit(schema, path)
      }
    }
    const { components } = JSON.parse(documents.streams)
    for (const [name, { payload }] of Object.entries<{ payload: Json }>(components.messages))
      visit(payload, name)
    expect([...silent], 'give each of these fields its meaning in server/reference/fields.ts').toEqual([])
  })

  test('uses only what OpenAPI 3.0.3 knows of JSON Schema', () => {
    expect(documents.json).not.toContain('"const":')
    expect(documents.json).not.toContain('"type":"null"')
    expect(documents.json).not.toContain('"patternProperties"')
  })
})

describe('the reference page', () => {
  test('has no script, no inline style and no foreign address', () => {
    expect(documents.html).not.toMatch(/<script|<style|javascript:|\son[a-z]+=|style=/i)
    const addresses = [...documents.html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address]) => address!)
    expect(addresses.filter((address) => !/^(#|\/swagger)/.test(address))).toEqual(['data:,'])
    expect(documents.css).not.toMatch(/url\(|@import/)
  })

  test('has an anchor for every refusal, where `type` of a problem points', () => {
    for (const { code } of REFUSALS) expect(documents.html).toContain(`id="${code}"`)
  })

  test('asks for no icon that is not there, and its tables fit a narrow screen', () => {
    expect(documents.html).toContain('<link rel="icon" href="data:,">')
    expect(documents.css).toContain('@media (max-width: 40rem)')
  })

  test('stays small: its size grows with its routes alone', () => {
    expect(documents.html.length / MANIFEST.length).toBeLessThan(6_000)
  })

  test('is served under a policy that lets nothing else in', async () => {
    const page = await harness.call('GET', '/swagger', { token: null })
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('content-security-policy')).toStartWith("default-src 'self'; img-src data:; ")
    const style = await harness.call('GET', '/swagger/style.css', { token: null })
    expect([style.status, style.text]).toEqual([200, documents.css])
    const json = await harness.call('GET', '/swagger/json', { token: null })
    expect([json.status, json.json.openapi]).toEqual([200, '3.0.3'])
  })

  test('is no path where the origin does not serve it', async () => {
    const bare = openHarness()
    for (const path of [
      '/swagger',
      '/swagger/json',
      '/swagger/style.css',
      '/swagger/streams',
      '/swagger/llms.txt',
      '/swagger/docs/quickstart',
    ]) {
      const { status, json } = await bare.call('GET', path, { token: null })
      expect([status, json.code]).toEqual([404, 'route_unknown'])
    }
    await bare.stop()
  })
})

describe('the AsyncAPI document', () => {
  type Message = { payload: { properties: Record<string, { const?: string; enum?: string[] }> } }
  type AsyncApi = {
    asyncapi: string
    channels: Record<string, { address: string; messages: Record<string, { $ref: string }> }>
    operations: Record<string, { action: string; messages: { $ref: string }[] }>
    components: { messages: Record<string, Message> }
  }
  let streams: AsyncApi
  beforeAll(() => {
    streams = JSON.parse(documents.streams)
  })

  test('is the golden one, and is served', async () => {
    expectGolden('asyncapi.json', streams)
    const { status, json } = await harness.call('GET', '/swagger/streams', { token: null })
    expect([status, json]).toEqual([200, streams])
  })

  test('has a channel per socket with its operations, and every reference leads somewhere', () => {
    const sockets = MANIFEST.filter(({ route }) => route.kind === 'stream')
    expect(Object.values(streams.channels).map(({ address }) => address)).toEqual(
      sockets.map(({ path }) => path),
    )
    for (const { route } of sockets) {
      if (route.kind !== 'stream') continue
      const { name, ops } = route.contract
      const taken = streams.operations[`${name}.receive`]!.messages.map(({ $ref }) => $ref.split('/').at(-1)!)
      expect(taken).toEqual(Object.keys(ops))
    }
    const refs = [...documents.streams.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path!.split('/'))
    expect(refs.length).toBeGreaterThan(50)
    for (const path of refs) {
      let at: unknown = streams
      for (const name of path) at = Object(at)[name]
      expect(at).toBeDefined()
    }
    expect(documents.streams).not.toContain('x-integer')
  })

  test('has the form that the schema of AsyncAPI 3.0.0 asks for, which rejects a document with a broken part', () => {
    const ajv = new Ajv({ strict: false, meta: false, validateSchema: false, validateFormats: false })
    // The schema holds draft 7 of JSON Schema as a part.
    const validate = ajv.compile(schema)
    validate(streams)
    expect(validate.errors).toBeNull()
    expect(validate({ ...streams, asyncapi: '4' })).toBe(false)
    const send = { ...streams.operations['trading.send']!, action: 'shout' }
    expect(validate({ ...streams, operations: { 'trading.send': send } })).toBe(false)
  })

  test('has one shape of data for each kind of event', () => {
    const { payload } = streams.components.messages['trading.event'] as unknown as {
      payload: { oneOf: { properties: { kind: { enum: string[] } } }[] }
    }
    const kinds = payload.oneOf.flatMap(({ properties }) => properties.kind.enum)
    expect(kinds.toSorted()).toEqual(EventKind.anyOf.map((kind) => String(kind.const)).toSorted())
  })

  test('lists for each socket the kinds of events it sends', () => {
    const kindsOf = (name: string) =>
      streams.components.messages[`${name}.event`]!.payload.properties['kind']!.enum!
    expect(kindsOf('trading')).toContain('withdrawal.paid')
    expect(new Set(kindsOf('fills').map((kind) => kind.split('.')[0]))).toEqual(new Set(['fill']))
  })
})

test('the index names every route, and each of its links leads to a place of the reference', async () => {
  const { status, text, headers } = await harness.call('GET', '/swagger/llms.txt', { token: null })
  expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
  for (const { method, path } of MANIFEST) expect(text).toContain(`[${method.toUpperCase()} ${path}](`)
  for (const [, address = ''] of text.matchAll(/\]\((\/[^)]+)\)/g)) {
    const [path, anchor] = address.split('#')
    expect((await harness.call('GET', path!, { token: null })).status).toBe(200)
    if (anchor !== undefined) expect(documents.html).toContain(`id="${anchor}"`)
  }
})

/** Problems that the linter of the field finds in a document, one line each. */
function problemsOf(text: string): string[] {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-lint-'))
  const file = join(dir, 'document.json')
  writeFileSync(file, text)
  // A socket answers 101 and never 2xx, which the skipped rule asks for.
  const lint = [
    fileURLToPath(import.meta.resolve('@redocly/cli/bin/cli.js')),
    'lint',
    '--skip-rule',
    'operation-2xx-response',
  ]
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const { stdout } = Bun.spawnSync([process.execPath, ...lint, '--format', 'json', file], {
    env,
    stderr: 'ignore',
  })
  rmSync(dir, { recursive: true })
  const { problems } = JSON.parse(stdout.toString()) as { problems: { ruleId: string; message: string }[] }
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)
}

test('a linter finds neither error nor warning in the documents, and finds an operation without security', () => {
  expect(problemsOf(documents.json)).toEqual([])
  expect(problemsOf(documents.streams)).toEqual([])
  const { security: _, ...open } = document.paths['/time']!['get']!
  const broken = { ...document, paths: { '/time': { get: open } } }
  expect(problemsOf(JSON.stringify(broken)).join()).toContain('security-defined')
}, 120_000)

test('refusal codes are the golden ones: never renamed, reused or reordered', () => {
  expectGolden(
    'refusals.json',
    REFUSALS.map(({ code, status, message }) => ({ code, status, message })),
  )
})
