/** Programs that share no code with the venue: curl, Python's standard library, and schemathesis from the reference alone. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { revokeCredential } from '../../client/wallet/account'
import { toHex } from '../../protocol/bytes'
import type { TokenRequest, TokenResponse } from '../../protocol/wire/public'
import type { AccountView, CredentialRequest } from '../../protocol/wire/trading'
import { SOCKETS_TICK_MS } from '../../server/limits'
import { callOperator } from '../../tools/account/call_operator'
import { run, said } from '../kit/said'
import { accountId, accountSeed, testCredential } from '../kit/venue/test_login'
import { PLACE } from '../routes/bodies'
import { openAccount } from './kit/open_trader'
import { operatorNow, operatorTarget, VenueProcess, venueTransport } from './kit/venue_process'

const SCRIPT = join(import.meta.dir, '../kit/server/independent_client.py')
const have = Object.fromEntries(['curl', 'python3'].map((name) => [name, Bun.which(name) !== null]))
for (const name in have) if (!have[name]) console.log(`${name} is not installed: its test is skipped`)

/** From a revocation to the close of its sockets. */
const CLOSED_WITHIN_S = 1
/** From the end of a token's life to the close of a silent socket: the next tick, on a busy machine. */
const ENDED_WITHIN_S = SOCKETS_TICK_MS / 1_000 + 1
const LIFE_S = 4
const venue = new VenueProcess()
let venue_id: Uint8Array
let main: TokenRequest
let version = 1

beforeAll(async () => {
  await venue.start()
  const { account_id: _, ...login } = (await openAccount(venue, 'independent')).credentials
  main = login
  venue_id = (await operatorTarget(venue)).venue
}, 180_000)
afterAll(() => venue.remove())

/** A further credential of the account, out of band. */
async function further(terms: Partial<CredentialRequest> = {}): Promise<TokenRequest> {
  const credential_id = toHex(crypto.getRandomValues(new Uint8Array(16)))
  version += 1
  const made = testCredential('independent', venue_id, { credential_id, version, ...terms })
  const body = JSON.stringify(made.request)
  const call = { method: 'POST', path: '/accounts/credentials', body } as const
  await callOperator(await operatorTarget(venue), call, operatorNow())
  const { account_id: _, ...login } = made.login
  return login
}
function revocationOf({ api_key }: TokenRequest): CredentialRequest {
  version += 1
  return revokeCredential(accountSeed('independent'), venue_id, { credential_id: api_key, version })
}
const chainSeconds = async () => {
  const answer = await venueTransport(venue).fetch('/time')
  return Math.floor(((await answer.json()) as { unix_ms: number }).unix_ms / 1_000)
}

test.skipIf(!have['python3'])(
  'Python: three factors, a read, both ways to revoke, an expiry, a slow body',
  async () => {
    const revoked = await further()
    const expiry_s = (await chainSeconds()) + LIFE_S + 1
    const expiring = await further({ expiry_s })
    const { hostname, port } = new URL(venue.facts.url)
    const given = {
      host: hostname,
      port: Number(port),
      ca: venue.facts.certificate,
      login: main,
      revoked,
      revocation: revocationOf(revoked),
      expiring,
      expiry_s,
      order: PLACE,
    }
    const child = Bun.spawn(['python3', SCRIPT], { stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' })
    child.stdin.write(JSON.stringify(given))
    await child.stdin.end()
    const { out: printed, ...ended } = await said(child)
    expect(ended).toEqual({ code: 0, error: '' })
    const seen = JSON.parse(printed)
    expect(seen.wrong).toEqual(Array(3).fill([401, 'credentials_invalid']))
    expect(seen.login).toEqual([200, 'Bearer', accountId('independent')])
    expect(seen.read).toEqual([200, [401, 'token_missing']])
    expect(seen.token_revoked).toEqual([200, 4401, expect.any(Number), [401, 'token_revoked']])
    expect(seen.credential_revoked).toEqual([
      ...[200, 4401, expect.any(Number), 4401],
      ...[
        [401, 'token_revoked'],
        [401, 'credentials_invalid'],
      ],
    ])
    for (const [, , closed_s] of [seen.token_revoked, seen.credential_revoked])
      expect(closed_s).toBeLessThan(CLOSED_WITHIN_S)
    expect(seen.slow_body).toEqual([401, 'token_revoked'])
    const [status, expires_in, code, lived_s, ...after] = seen.expiry
    expect([status, code, ...after]).toEqual([200, 4401, [401, 'token_expired'], [401, 'credential_expired']])
    expect(expires_in).toBeLessThanOrEqual(LIFE_S + 1)
    expect(lived_s).toBeLessThan(expires_in + ENDED_WITHIN_S)
    expect(seen.others).toBe(200)
  },
  120_000,
)

type Answer = { status: number; json: TokenResponse & AccountView & { code?: string } }

async function curl(method: string, path: string, token?: string, body?: unknown): Promise<Answer> {
  const { certificate, url } = venue.facts
  const args = ['-sS', '--cacert', certificate, '-X', method, '-w', '\n%{http_code}', url + path]
  if (token !== undefined) args.push('-H', `Authorization: Bearer ${token}`)
  // Through standard input, so that no list of processes shows a secret.
  if (body !== undefined) args.push('-H', 'Content-Type: application/json', '--data-binary', '@-')
  const stdin = new Blob([body === undefined ? '' : JSON.stringify(body)])
  const { code, out: printed, error } = await run(['curl', ...args], { stdin })
  expect([code, error]).toEqual([0, ''])
  const at = printed.lastIndexOf('\n')
  return { status: Number(printed.slice(at)), json: JSON.parse(printed.slice(0, at)) }
}

test.skipIf(!have['curl'])(
  'curl: three factors, a read, a revocation that closes the socket, and what a credential that reads may do',
  async () => {
    const codeOf = ({ status, json }: Answer) => [status, json.code]
    const logIn = async (login: TokenRequest) => curl('POST', '/auth/token', undefined, login)
    for (const wrong of [{ api_key: 'x' }, { api_secret: 'x' }, { passphrase: 'x' }])
      expect(codeOf(await logIn({ ...main, ...wrong }))).toEqual([401, 'credentials_invalid'])
    const { status, json } = await logIn(main)
    expect([status, json.account_id, json.expires_in]).toEqual([200, accountId('independent'), 900])
    const account = await curl('GET', '/account', json.access_token)
    expect(account.json.changes.at(-1)).toMatchObject({ change: 'login', credential_id: main.api_key })

    const reading = await further({ kind: 'read' })
    const read_token = (await logIn(reading)).json.access_token
    expect((await curl('GET', '/orders', read_token)).status).toBe(200)
    expect(codeOf(await curl('GET', '/account', read_token))).toEqual([403, 'read_only'])
    const own_end = revocationOf(reading)
    expect(codeOf(await curl('POST', '/account/credentials', read_token, own_end))).toEqual([
      403,
      'read_only',
    ])

    const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13']
    const headers = [
      ...upgrade,
      'Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==',
      `Authorization: Bearer ${read_token}`,
    ]
    const { certificate, url } = venue.facts
    const common = ['curl', '-sN', '--http1.1', '--cacert', certificate, `${url}/ws/orders`]
    const socket = Bun.spawn([...common, ...headers.flatMap((one) => ['-H', one])], { stdout: 'pipe' })
    const frames = socket.stdout.getReader()
    let bytes = Buffer.alloc(0)
    const until = async (wanted: string | Buffer) => {
      while (!bytes.includes(wanted)) bytes = Buffer.concat([bytes, (await frames.read()).value!])
    }
    await until('"hello"')
    expect((await curl('POST', '/account/credentials', json.access_token, own_end)).status).toBe(200)
    const began = performance.now()
    // The code of the close frame; heartbeats before it are skipped.
    await until(Buffer.from([0x11, 0x31]))
    expect(performance.now() - began).toBeLessThan(CLOSED_WITHIN_S * 1_000)
    socket.kill()
    expect(codeOf(await curl('GET', '/orders', read_token))).toEqual([401, 'token_revoked'])
    expect(codeOf(await logIn(reading))).toEqual([401, 'credentials_invalid'])
    expect((await curl('POST', '/auth/token/revoke', json.access_token)).status).toBe(200)
    expect(codeOf(await curl('GET', '/account', json.access_token))).toEqual([401, 'token_revoked'])
  },
  120_000,
)

const COMMAND = Bun.which('schemathesis')
if (COMMAND === null)
  console.log('schemathesis is not installed (pip install schemathesis): its test is skipped')

const CHECKS =
  'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance'
/** Per endpoint and phase; whole runs took up to 100 s with 12. */
const EXAMPLES = '4'

const documentVenue = new VenueProcess()
beforeAll(async () => void (COMMAND && (await documentVenue.start())), 60_000)
afterAll(() => documentVenue.remove())

/** Cases that passed. Endpoints that would end the token are left to callers without one. */
async function cases(token: string | undefined): Promise<number> {
  const document = join(documentVenue.data_dir, 'openapi.json')
  writeFileSync(document, await (await venueTransport(documentVenue).fetch('/swagger/json')).text())
  const header = ['-H', `Authorization: Bearer ${token}`, '--exclude-path-regex', '^/ws/|token/revoke']
  const run = Bun.spawn(
    [
      ...[
        COMMAND!,
        'run',
        document,
        '--url',
        documentVenue.facts.url,
        '--tls-verify',
        documentVenue.facts.certificate,
        '-c',
        CHECKS,
      ],
      ...['--phases', 'coverage,fuzzing', '-n', EXAMPLES, '--generation-deterministic', '--no-color'],
      ...(token === undefined ? [] : header),
    ],
    { cwd: documentVenue.data_dir, stdout: 'pipe', stderr: 'pipe' },
  )
  const told = await new Response(run.stdout).text()
  const [, generated, passed] = /([0-9]+) generated, ([0-9]+) passed/.exec(told) ?? []
  expect(await run.exited, told.slice(-4_000)).toBe(0)
  expect(passed).toBe(generated!)
  return Number(passed)
}

test.skipIf(COMMAND === null)(
  'no case is a server error or answered in a way the document does not have',
  async () => {
    const { client } = await openAccount(documentVenue, 'document')
    const anonymous = await cases(undefined)
    const bearer = await cases(await client.token())
    console.log(`schemathesis: ${anonymous} cases without a token, ${bearer} with one`)
    expect(Math.min(anonymous, bearer)).toBeGreaterThan(500)
  },
  300_000,
)
