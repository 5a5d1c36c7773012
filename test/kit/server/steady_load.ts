/** Steady load on a listener, and a separate network for programs that need their own addresses. */

import { connect as tlsConnect } from 'node:tls'
import type { Listener } from '../../../server/tls/listen'
import { spkiOf, TOKEN } from './harness'

const [CALLERS, KEEPERS, SOCKETS] = [4, 4, 8]

export type Seen = {
  /** Requests answered, each over a new connection. */
  fresh: number
  /** Requests answered over kept connections. */
  kept: number
  failed: string[]
  sockets_lost: number
  /** Keys that new connections showed, in the order they appeared. */
  keys: string[]
}
type Load = {
  /** Resolves once a new connection shows the key. */
  sees(cert_pem: string): Promise<void>
  /** Ends the load; every socket must first answer once more. */
  end(): Promise<Seen>
}

export async function openLoad(listener: Pick<Listener, 'port'>): Promise<Load> {
  const { port } = listener
  const seen: Seen = { fresh: 0, kept: 0, failed: [], sockets_lost: 0, keys: [] }
  let ending = false
  const again = async (ask: () => Promise<void>) => {
    while (!ending) await ask().catch((error: Error) => void seen.failed.push(error.message))
  }
  const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => openSocket(port)))
  for (const socket of sockets)
    socket.onclose = () => {
      if (!ending) seen.sockets_lost += 1
    }
  const fresh = async () => {
    const key = await askOnce(port)
    seen.fresh += 1
    if (!seen.keys.includes(key)) seen.keys.push(key)
  }
  const kept = async () => {
    const answer = await fetch(`https://127.0.0.1:${port}/health`, { tls: { rejectUnauthorized: false } })
    if (answer.status !== 200) throw new Error(`status ${answer.status}`)
    await answer.text()
    seen.kept += 1
  }
  const loops = [
    ...Array.from({ length: CALLERS }, () => again(fresh)),
    ...Array.from({ length: KEEPERS }, () => again(kept)),
  ]
  return {
    async sees(cert_pem) {
      while (!seen.keys.includes(spkiOf(cert_pem))) await Bun.sleep(1)
    },
    async end() {
      await Promise.all(sockets.map(ping))
      ending = true
      await Promise.all(loops)
      for (const socket of sockets) socket.close()
      return seen
    },
  }
}

function openSocket(port: number): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const url = `wss://127.0.0.1:${port}/ws/fills?token=${TOKEN}`
    const socket = new WebSocket(url, { tls: { rejectUnauthorized: false } } as never)
    socket.onmessage = () => resolve(socket)
    socket.onerror = () => reject(new Error('the socket did not open'))
  })
}

function ping(socket: WebSocket): Promise<void> {
  return new Promise((resolve) => {
    socket.onmessage = ({ data }) => {
      if (JSON.parse(String(data)).id === 'still-here') resolve()
    }
    socket.send('{"op":"ping","id":"still-here"}')
  })
}

/** @returns the key the connection showed. */
function askOnce(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      socket.write('GET /health HTTP/1.1\r\nhost: venue.example.org\r\nconnection: close\r\n\r\n')
    })
    socket.on('data', (part) => {
      text += part.toString('latin1')
    })
    socket.on('error', reject)
    const key = () => spkiOf(socket.getPeerCertificate().raw)
    socket.on('end', () => {
      if (text.startsWith('HTTP/1.1 200') && text.includes('"status":"ok"')) resolve(key())
      else reject(new Error(`cut short after ${text.length} bytes`))
    })
  })
}

type OwnNetwork = { run(script: string, ...parameters: string[]): unknown }

const PREPARE = 'ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"'

/** Undefined, with the reason printed, where this machine permits none. */
export function inOwnNetwork(...command: string[]): string[] | undefined {
  const within = (...last: string[]) => [
    'unshare',
    '--user',
    '--map-root-user',
    '--net',
    'sh',
    '-c',
    PREPARE,
    'sh',
    ...last,
  ]
  if (Bun.which('unshare') !== null && Bun.spawnSync(within('true')).exitCode === 0) return within(...command)
  console.log('skipped: no network namespace with tcp_migrate_req can be had here')
  return undefined
}

export function ownNetwork(): OwnNetwork | undefined {
  if (inOwnNetwork('true') === undefined) return undefined
  return {
    run(script, ...parameters) {
      const command = inOwnNetwork(process.execPath, script, ...parameters)!
      const { stdout, stderr, exitCode } = Bun.spawnSync(command, { stdout: 'pipe', stderr: 'pipe' })
      if (exitCode !== 0) throw new Error(stderr.toString())
      return JSON.parse(stdout.toString())
    },
  }
}
