/** Requests no HTTP client would send: tricks with paths, framing and headers, as bytes. */
import { MARKER } from './problem_check'

type RawRequest = { what: string; bytes: string | Uint8Array }
const HOST = 'Host: localhost'
const END = '\r\n\r\n'

/** Paths that name a file, a folder above, or a known path in disguise; none of them is a route. */
const PATHS = [
  '/orders/../orders',
  '/./orders',
  '//orders',
  '/orders/',
  '/orders//',
  '/ORDERS',
  '/%6frders/x/y',
  '/orders%2f',
  '/orders%00',
  '/orders;a=b',
  '/orders/..%2f..%2fetc%2fpasswd',
  '/evidences/..%2f..%2fjournal',
  '/evidences/../../journal/0000000001.segment',
  '/evidences/%2e%2e/%2e%2e/operator.key',
  '/evidences/..\\..\\operator.key',
  '/evidences/%2e%2e%5coperator.key',
  '/swagger/../operator.key',
  '/swagger/%2e%2e/laptop.json',
  '/instruments/%00',
  '/instruments/%ff%fe',
  '/instruments/%',
  '/instruments/%zz',
  `/instruments/${MARKER}`,
  `/${MARKER}`,
  `/orders/${MARKER}`,
  `/${'a/'.repeat(2_000)}`,
  '/constructor',
  '/__proto__',
  '/orders/__proto__',
  '/metrics',
  '/accounts',
  '/drain',
  '/.env',
  `http://${MARKER}/orders`,
  '/orders#fragment',
]
export const PATH_TRICKS: RawRequest[] = PATHS.map((path) => ({
  what: `GET ${path.slice(0, 60)}`,
  bytes: `GET ${path} HTTP/1.1\r\n${HOST}${END}`,
}))

const post = (headers: string, body = '') =>
  `POST /auth/token HTTP/1.1\r\n${HOST}\r\nContent-Type: application/json\r\n${headers}${END}${body}`

/** What cannot be a request: answered with an error or not at all. */
export const BAD_FRAMING: RawRequest[] = [
  { what: 'noise', bytes: crypto.getRandomValues(new Uint8Array(4_096)) },
  { what: 'no host', bytes: `GET /health HTTP/1.1${END}` },
  { what: 'two hosts', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nHost: ${MARKER}${END}` },
  { what: 'an unknown version', bytes: `GET /health HTTP/9.9\r\n${HOST}${END}` },
  { what: 'a verb of noise', bytes: `${MARKER.toUpperCase()} /health HTTP/1.1\r\n${HOST}${END}` },
  {
    what: 'a control character in a header',
    bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nX-A: a\u0000b${END}`,
  },
  { what: 'a header without a colon', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\n${MARKER}${END}` },
  { what: 'a space before the colon', bytes: `GET /health HTTP/1.1\r\nHost : localhost${END}` },
  {
    what: 'a header of 100 KB',
    bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nX-A: ${'a'.repeat(100_000)}${END}`,
  },
  { what: '5,000 headers', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\n${'X-A: a\r\n'.repeat(5_000)}\r\n` },
  { what: 'a path of 100 KB', bytes: `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n${HOST}${END}` },
  { what: 'a negative length', bytes: post('Content-Length: -1', '{}') },
  { what: 'a length that is no number', bytes: post(`Content-Length: ${MARKER}`, '{}') },
  { what: 'two lengths', bytes: post('Content-Length: 2\r\nContent-Length: 3', '{}1') },
  {
    what: 'length and chunks',
    bytes: post('Content-Length: 2\r\nTransfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'),
  },
  {
    what: 'a chunk size that is no number',
    bytes: post('Transfer-Encoding: chunked', `${MARKER}\r\n{}\r\n`),
  },
  { what: 'a chunk of 2^64', bytes: post('Transfer-Encoding: chunked', `ffffffffffffffffff\r\n{}\r\n`) },
  { what: 'an unknown coding', bytes: post(`Transfer-Encoding: ${MARKER}`, '{}') },
  { what: 'too much by its length', bytes: post('Content-Length: 20000', 'x'.repeat(20_000)) },
  { what: 'a gigabyte announced', bytes: post('Content-Length: 1073741824', '{') },
  { what: 'a body cut short', bytes: post('Content-Length: 100', `{"${MARKER}"`) },
  { what: 'a star for a path', bytes: `GET * HTTP/1.1\r\n${HOST}${END}` },
  { what: 'HTTP/2 without asking', bytes: `PRI * HTTP/2.0${END}SM${END}` },
]
