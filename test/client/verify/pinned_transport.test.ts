/** A pinned transport accepts one key, under a public authority or none, independent of the environment. */
import { afterAll, expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as x509 from '../../../enclave/x509'
import { generateTls } from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/pem'

const folder = mkdtempSync(join(tmpdir(), 'tacit-pinned-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const nameOf = (common_name: string): x509.Name => ({ common_name, organization: 'Test' })
function write(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

function issue(subject: string, subject_key: KeyObject, issuer_key: KeyObject, extensions: x509.Extension[]) {
  return x509.issueCertificate({
    subject: nameOf(subject),
    issuer: nameOf('authority'),
    subject_key,
    issuer_key,
    serial: new Uint8Array(16).fill(0x41),
    not_before_ms: Date.now() - 3_600_000,
    not_after_ms: Date.now() + 86_400_000,
    extensions,
  })
}

const SCRIPT = join(import.meta.dir, '../../kit/verify/pinned_probe.ts')
const node = Bun.which('node')
if (node === null) console.log('skipped in part: there is no Node on this machine')
/** The commands that run the probe: in Bun, and built for Node, whose transport is undici's. */
async function commands(): Promise<string[][]> {
  if (node === null) return [[process.execPath, SCRIPT]]
  await Bun.build({
    entrypoints: [SCRIPT],
    outdir: folder,
    target: 'node',
    packages: 'external',
    throw: true,
  })
  const packages = join(folder, 'node_modules')
  if (!existsSync(packages)) symlinkSync(join(import.meta.dir, '../../../node_modules'), packages)
  renameSync(join(folder, 'pinned_probe.js'), join(folder, 'pinned_probe.mjs'))
  return [
    [process.execPath, SCRIPT],
    [node, join(folder, 'pinned_probe.mjs')],
  ]
}

/** Expects what right and other pins get from a server, under this environment. */
async function probe(cert: string, key: string, env: Record<string, string>, wanted: object): Promise<void> {
  const other = write('other.pem', generateTls([], Date.now()).cert_pem)
  let seen = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') },
    fetch: (request, one) => {
      seen += 1
      // Sockets have the headers that they are opened with.
      const is_socket = request.headers.get('x-leader-epoch') === '7' && one.upgrade(request)
      return is_socket ? undefined : new Response('answered')
    },
    websocket: { open: (socket) => void socket.send('answered'), message: () => {} },
  })
  for (const command of await commands()) {
    const args = [...command, `https://127.0.0.1:${server.port}`, other]
    const child = Bun.spawn(args, { env: { ...process.env, ...env }, stdout: 'pipe', stderr: 'ignore' })
    seen = 0
    const { before, ...told } = JSON.parse(await new Response(child.stdout).text())
    expect([command[0], told]).toEqual([command[0], wanted])
    // A rejected connection carries no byte of HTTP: the address of a stream contains the token.
    expect(seen).toBe([before, ...Object.values(told)].filter((one) => one === 'answered').length)
  }
  await server.stop(true)
}

const PINNED = {
  'right fetch': 'answered',
  'right socket': 'answered',
  'other fetch': 'refused',
  'other socket': 'refused',
}

test('a self-signed certificate is believed because it is the pinned one, and no other is', async () => {
  const { cert_pem, key_pem } = generateTls([], Date.now())
  const [cert, key] = [write('self.pem', cert_pem), write('self.key', key_pem)]
  for (const env of [{}, { NODE_TLS_REJECT_UNAUTHORIZED: '0' }])
    await probe(cert, key, env, { self_signed: true, ...PINNED })
})

test('under a public authority the key is held to besides', async () => {
  const [root_key, leaf_key] = [newKey(), newKey()]
  const root = issue('authority', root_key, root_key, [x509.keyUsage(5, 6), x509.basicConstraints(true)])
  const leaf = issue('venue', leaf_key, root_key, [
    x509.basicConstraints(false),
    x509.keyUsage(0),
    x509.serverAuthentication(),
    x509.subjectAlternativeNames(['127.0.0.1']),
  ])
  const cert = write('leaf.pem', pemOfDer(leaf, 'CERTIFICATE'))
  const key = write('leaf.key', leaf_key.export({ type: 'pkcs8', format: 'pem' }).toString())
  const NODE_EXTRA_CA_CERTS = write('root.pem', pemOfDer(root, 'CERTIFICATE'))
  for (const env of [{ NODE_EXTRA_CA_CERTS }, { NODE_EXTRA_CA_CERTS, NODE_TLS_REJECT_UNAUTHORIZED: '0' }])
    await probe(cert, key, env, { self_signed: false, ...PINNED })
  const refused = { 'right fetch': 'refused', 'right socket': 'refused' }
  await probe(cert, key, {}, { self_signed: false, ...PINNED, ...refused })
})
