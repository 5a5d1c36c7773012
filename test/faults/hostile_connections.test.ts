/** Thousands of connections that never finish what they began: strangers are answered meanwhile, and nothing stays behind. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { VenueProcess, venueTransport } from './kit/venue_process'

/** What this process may open, less what it holds otherwise. */
const DESCRIPTORS = Number(
  /Max open files +(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1_024,
)
/** Opened at once; the others wait for them. */
const AT_ONCE = 100
const CONNECTIONS = Math.min(2_000, AT_ONCE * Math.floor((DESCRIPTORS - 200) / AT_ONCE))
const GROWTH_BYTES_MAX = 256 * 1024 * 1024

const venue = new VenueProcess()
beforeAll(async () => void (await venue.start()), 180_000)
afterAll(() => venue.remove())

const POST = 'POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
/** What each connection sends behind its handshake; undefined: nothing at all, not even a handshake. */
const KINDS: readonly (string | undefined)[] = [
  undefined,
  '',
  'GET /time HTTP/1.1\r\nHost: loc',
  `${POST}Content-Length: 16000\r\n\r\n{"api_key":"`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n4\r\n{"ap\r\n`,
  `${POST}Content-Length: 900000000\r\n\r\n${'x'.repeat(32_768)}`,
  'GET /ws/orders?token=nobody HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n',
]

function rssBytes(): number {
  const pages = Number(readFileSync(`/proc/${venue.pid}/statm`, 'utf8').split(' ')[1])
  return pages * 4_096
}

const descriptors = () => readdirSync(`/proc/${venue.pid}/fd`).length

/** Resolves once the connection is open and its bytes are sent, or once the venue closed it. */
function attack(port: number, sent: string | undefined): Promise<Socket> {
  return new Promise((resolve) => {
    const over = () => {
      if (sent) socket.write(sent)
      resolve(socket)
    }
    const options = { host: '127.0.0.1', port, rejectUnauthorized: false }
    const socket = sent === undefined ? connectTcp(options, over) : connectTls(options, over)
    socket.on('error', () => resolve(socket))
    socket.resume()
  })
}

async function answerMs(): Promise<number> {
  const begun = performance.now()
  expect((await venueTransport(venue).fetch('/time')).status).toBe(200)
  return performance.now() - begun
}

test(`${CONNECTIONS} unfinished connections keep nobody from an answer, and leave when they close`, async () => {
  const port = Number(new URL(venue.facts.url).port)
  const before = rssBytes()
  const quiet = descriptors()
  const held: Socket[] = []
  const waited: number[] = []
  for (let first = 0; first < CONNECTIONS; first += AT_ONCE) {
    const kinds = Array.from({ length: AT_ONCE }, (_, at) => KINDS[(first + at) % KINDS.length])
    held.push(...(await Promise.all(kinds.map((sent) => attack(port, sent)))))
    waited.push(await answerMs())
  }
  const grown = rssBytes() - before
  const open = held.filter((socket) => !socket.destroyed).length
  waited.sort((a, b) => a - b)
  const [median, worst] = [waited[waited.length >> 1]!, waited.at(-1)!]
  console.log(
    `${held.length} connections, ${open} still open, memory +${(grown / 1e6).toFixed(0)} MB, ` +
      `answers in ${median.toFixed(1)} ms, ${worst.toFixed(1)} ms at worst`,
  )
  expect(held).toHaveLength(CONNECTIONS)
  // Those with a huge body are answered and closed; the others wait for their own idle time.
  expect(open).toBeLessThan(CONNECTIONS)
  expect(grown).toBeLessThan(GROWTH_BYTES_MAX)
  expect(descriptors()).toBeGreaterThan(CONNECTIONS / 2)
  for (const socket of held) socket.destroy()
  // The one of the client that asks may stay.
  while (descriptors() > quiet + 1) await Bun.sleep(10)
  await answerMs()
  expect(venue.runs).toBe(true)
}, 120_000)
