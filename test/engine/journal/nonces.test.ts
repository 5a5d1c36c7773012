/** Under one key no nonce seals two things: over ends at any call, failed syncs, old disks put back, and two epochs. */
import { afterEach, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { disk } from '../../../engine/journal/disk'
import { encodeGroup } from '../../../engine/journal/frame'
import { JournalServer } from '../../../engine/journal/journal_server'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { Random } from '../../kit/random'
import { SimulatedDisk } from '../../kit/simulated_disk'
import { KEY, records, SIGNER } from './folder'

const SEED = Number(process.env['TACIT_NONCE_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const real = { ...disk }
afterEach(() => void Object.assign(disk, real))

/** The host's view: every sector that was ever written, by the salt of its file's key and its place. */
class Host {
  readonly sealed = new Map<string, string>()
  /** Salts of segment headers, each with the header. */
  readonly headers = new Map<string, string>()
  twice = 0

  see(salt: Uint8Array, bytes: Uint8Array, at: number): void {
    for (let from = 0; from < bytes.length; from += 512) {
      const place = `${Buffer.from(salt).toString('hex')} ${at + from}`
      const content = createHash('sha256')
        .update(bytes.subarray(from, from + 512))
        .digest('hex')
      const seen = this.sealed.get(place) ?? content
      if (seen !== content) this.twice++
      this.sealed.set(place, content)
    }
  }
  header(bytes: Uint8Array): void {
    const salt = Buffer.from(bytes.subarray(72, 104)).toString('hex')
    const header = Buffer.from(bytes).toString('hex')
    if ((this.headers.get(salt) ?? header) !== header) this.twice++
    this.headers.set(salt, header)
  }
}

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

test(`no sector of a journal is sealed twice under one key (seed ${SEED})`, async () => {
  const random = new Random(SEED)
  const host = new Host()
  const simulated = new SimulatedDisk((count) => random.below(count))
  Object.assign(disk, simulated.disk)
  const { write, read } = simulated.disk
  disk.write = (fd, bytes, from, length, at) => {
    const part = bytes.slice(from, from + length)
    const header = new Uint8Array(512)
    if (at === 0) host.header(part)
    else {
      read(fd, header, 0, 512, 0)
      host.see(header.subarray(72, 104), part, at)
    }
    return write(fd, bytes, from, length, at)
  }
  let old = simulated.copy()
  for (let life = 0; life < 150; life++) {
    const kind = random.pick(['ends', 'EIO'] as const)
    simulated.start({ at: random.between(4, 40), kind })
    let seq = 0
    const server = new JournalServer((reply) => {
      if (reply.op === 'opened') seq = reply.seq
      if (reply.op === 'refused' && reply.failure.damage !== undefined) throw new Error(reply.failure.message)
    })
    server.receive({ op: 'open', dir: '/journal', key: KEY, segment_bytes: 8_192 })
    server.receive({ op: 'sign_as', signer: { ...SIGNER, epoch: random.between(4, 5) } })
    for (let step = 0; step < 6; step++) {
      // The same record at the same place again, as after an old disk was put back.
      server.receive({ op: 'append', group: encodeGroup(records(step, 1, 700), ++seq, new Uint8Array(32)) })
      await turns(random.between(0, 3))
    }
    await turns(4)
    simulated.end()
    await turns(4)
    const then = random.between(0, 5)
    if (then === 0) simulated.losePower()
    if (then === 1) simulated.putBack(old)
    if (then === 2) old = simulated.copy()
  }
  expect(host.twice).toBe(0)
  expect(host.headers.size).toBeGreaterThan(50)
  expect(host.sealed.size).toBeGreaterThan(500)
})

test('each snapshot file has its own key, also for the same state at the same place', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-nonces-'))
  try {
    const store = openSnapshotStore({ dir, key: KEY })
    const pieces: string[] = []
    for (let round = 0; round < 5; round++) {
      const blocks = () => [new Uint8Array(2_500_000)]
      await store.writeSnapshot({ seq: 7, head: new Uint8Array(32) }, blocks, undefined)
      const bytes = await Bun.file(join(dir, '0000000000000007.snapshot')).bytes()
      const sealed = bytes.subarray(88)
      for (let at = 0; at < sealed.length; at += 2 ** 20 + 16)
        pieces.push(Buffer.from(sealed.subarray(at, at + 64)).toString('hex'))
    }
    expect(pieces).toHaveLength(15)
    expect(new Set(pieces).size).toBe(15)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})
