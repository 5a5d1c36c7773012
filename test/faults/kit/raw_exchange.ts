/** Sends bytes over TLS unchanged, and reads the whole answer. */
import { readFileSync } from 'node:fs'
import { connect } from 'node:tls'
import type { SandboxFacts } from '../../../sandbox/open_sandbox'
import type { Told } from './problem_check'

const QUIET_MS = 1_000

/** The answer; undefined when the connection ends without one. `url` picks the listener. */
export function rawExchange(
  facts: SandboxFacts,
  url: string,
  request: string | Uint8Array,
): Promise<Told | undefined> {
  const { promise, resolve } = Promise.withResolvers<Told | undefined>()
  const { hostname, port } = new URL(url)
  const ca = readFileSync(facts.certificate)
  const socket = connect({ host: '127.0.0.1', port: Number(port), servername: hostname, ca }, () => {
    socket.write(request)
  })
  let answer = ''
  const end = (): void => {
    socket.destroy()
    resolve(parse(answer))
  }
  socket.on('data', (bytes) => {
    answer += bytes.toString('latin1')
    if (isWhole(answer)) end()
  })
  socket.on('error', end)
  socket.on('close', end)
  // A request that never ends gets no answer: the listener's own idle limit is far longer than a test waits.
  socket.setTimeout(QUIET_MS, end)
  return promise
}

function isWhole(answer: string): boolean {
  const head_end = answer.indexOf('\r\n\r\n')
  if (head_end === -1) return false
  const length = /content-length: *([0-9]+)/i.exec(answer.slice(0, head_end))
  return length === null || answer.length >= head_end + 4 + Number(length[1])
}

function parse(answer: string): Told | undefined {
  const status = /^HTTP\/1\.1 ([0-9]{3})/.exec(answer)
  if (status === null) return undefined
  const head_end = answer.indexOf('\r\n\r\n')
  const headers = answer.slice(0, head_end)
  const content_type = /content-type: *(.+)/i.exec(headers)?.[1]?.trim() ?? null
  return { status: Number(status[1]), content_type, headers, text: answer.slice(head_end + 4) }
}
