/** Runs a real ACME authority on loopback, on free ports: Let's Encrypt's test server Pebble with its DNS server. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateTls } from '../../../enclave/x509'

const INSTALL =
  'go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1 github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1'

export type Pebble = {
  directory_url: string
  /** Root of the authority's own listener, PEM. */
  root_pem: string
  /** An HTTP API in the format that the venue uses, in front of the DNS server. */
  dns_url: string
  /** Records the venue wrote, in order. */
  readonly dns_calls: { operation: string; fqdn: string; authorization: string | null }[]
  setCname(host: string, target: string): Promise<void>
  close(): Promise<void>
}

/** Paths of both programs, or undefined with the reason printed. */
export function pebblePrograms(): { pebble: string; dns: string } | undefined {
  const PATH = [process.env['PATH'], join(homedir(), 'go/bin')].join(':')
  const [pebble, dns] = ['pebble', 'pebble-challtestsrv'].map((name) => Bun.which(name, { PATH }))
  if (pebble && dns) return { pebble, dns }
  console.log(`skipped: no ACME test server here; with Go, ${INSTALL}`)
  return undefined
}

/** @param tls_port where the authority looks for the answer of a TLS-ALPN-01 challenge. */
export async function openPebble(
  programs: { pebble: string; dns: string },
  tls_port: number,
): Promise<Pebble> {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-pebble-'))
  const [listen, management, dns_port, dns_management] = await freePorts(4)
  const own = generateTls([], Date.now())
  const at = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const config = at(
    'config.json',
    JSON.stringify({
      pebble: {
        listenAddress: `127.0.0.1:${listen}`,
        managementListenAddress: `127.0.0.1:${management}`,
        certificate: at('cert.pem', own.cert_pem),
        privateKey: at('key.pem', own.key_pem),
        httpPort: 1,
        tlsPort: tls_port,
        ocspResponderURL: '',
        externalAccountBindingRequired: false,
        keyAlgorithm: 'ecdsa',
        profiles: { default: { description: 'six days', validityPeriod: 518_400 } },
      },
    }),
  )
  const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '', '-defaultIPv6', '']
  const dns = spawn(
    [
      programs.dns,
      '-dnsserver',
      `127.0.0.1:${dns_port}`,
      '-management',
      `127.0.0.1:${dns_management}`,
      ...off,
    ],
    {},
  )
  // Every fifth nonce is rejected: the client must live with it. An account's valid authorization of a name is always reused,
  // without a challenge: with 0 the authority would still reuse one in a hundred.
  const chaos = { PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '20', PEBBLE_AUTHZREUSE: '100' }
  const pebble = spawn([programs.pebble, '-config', config, '-dnsserver', `127.0.0.1:${dns_port}`], chaos)
  const directory_url = `https://127.0.0.1:${listen}/dir`
  await answering(() => fetch(directory_url, { tls: { ca: own.cert_pem } }))
  await answering(() => fetch(`http://127.0.0.1:${dns_management}/`))
  const tell = async (path: string, body: object) => {
    const answer = await fetch(`http://127.0.0.1:${dns_management}/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
  }
  const api = dnsApi(own, tell)
  return {
    directory_url,
    root_pem: own.cert_pem,
    dns_url: `https://127.0.0.1:${api.server.port}/api`,
    dns_calls: api.calls,
    setCname: (host, target) => tell('set-cname', { host, target }),
    async close() {
      for (const child of [pebble, dns]) child.kill()
      await Promise.all([pebble.exited, dns.exited, api.server.stop(true)])
      if (existsSync(folder)) rmSync(folder, { recursive: true })
    },
  }
}

function spawn(command: string[], more: Record<string, string>) {
  return Bun.spawn(command, { env: { ...process.env, ...more }, stdout: 'ignore', stderr: 'ignore' })
}

/** Translates the form ACME clients share into the DNS server's own. */
function dnsApi(
  tls: { cert_pem: string; key_pem: string },
  tell: (path: string, body: object) => Promise<void>,
) {
  const calls: Pebble['dns_calls'] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: tls.cert_pem, key: tls.key_pem },
    async fetch(request) {
      const operation = new URL(request.url).pathname.split('/').at(-1)!
      const { fqdn, value } = (await request.json()) as { fqdn: string; value: string }
      calls.push({ operation, fqdn, authorization: request.headers.get('authorization') })
      await tell(operation === 'present' ? 'set-txt' : 'clear-txt', { host: fqdn, value })
      return new Response(null, { status: 200 })
    },
  })
  return { server, calls }
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer()
      return new Promise<typeof server>((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
    }),
  )
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

/** The test's own time limit ends a wait in vain. */
async function answering(ask: () => Promise<Response>): Promise<void> {
  for (;;) {
    try {
      await ask()
      return
    } catch {
      await Bun.sleep(20)
    }
  }
}
