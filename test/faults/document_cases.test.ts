/** Cases made from the reference document, by schemathesis: none is a server error, and each answer is one the document has. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openAccount } from './kit/open_trader'
import { VenueProcess, venueTransport } from './kit/venue_process'

const COMMAND = Bun.which('schemathesis')
if (COMMAND === null)
  console.log('schemathesis is not installed (pip install schemathesis): its test is skipped')

const CHECKS =
  'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance'
/** Per endpoint and phase; whole runs took up to 100 s with 12. */
const EXAMPLES = '4'

const venue = new VenueProcess()
beforeAll(async () => void (COMMAND && (await venue.start())), 60_000)
afterAll(() => venue.remove())

/** Cases that passed. Endpoints that would end the token are left to callers without one. */
async function cases(token: string | undefined): Promise<number> {
  const document = join(venue.data_dir, 'openapi.json')
  writeFileSync(document, await (await venueTransport(venue).fetch('/swagger/json')).text())
  const header = ['-H', `Authorization: Bearer ${token}`, '--exclude-path-regex', '^/ws/|token/revoke']
  const run = Bun.spawn(
    [
      ...[
        COMMAND!,
        'run',
        document,
        '--url',
        venue.facts.url,
        '--tls-verify',
        venue.facts.certificate,
        '-c',
        CHECKS,
      ],
      ...['--phases', 'coverage,fuzzing', '-n', EXAMPLES, '--generation-deterministic', '--no-color'],
      ...(token === undefined ? [] : header),
    ],
    { cwd: venue.data_dir, stdout: 'pipe', stderr: 'pipe' },
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
    const { client } = await openAccount(venue, 'document')
    const anonymous = await cases(undefined)
    const bearer = await cases(await client.token())
    console.log(`schemathesis: ${anonymous} cases without a token, ${bearer} with one`)
    expect(Math.min(anonymous, bearer)).toBeGreaterThan(500)
  },
  300_000,
)
