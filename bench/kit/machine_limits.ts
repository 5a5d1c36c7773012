/** Measures the limits of this machine in the same minute: signature checks, durable writes, bare HTTPS. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { VerifyAll } from '../../native/load_ed25519'
import { verifySignature } from '../../protocol/ed25519'
import { KEYS, named, pairNamed } from '../venue/bench_config'
import { median } from './figures'

type VerifyLimit = {
  /** Checks per second of wall time, on one thread. */
  per_second: number
  /** Processor time of one check: steadier than the rate where others share the machine. */
  cpu_us: number
}

const onePlatform: VerifyAll = ([one]) => [verifySignature(one!.signature, one!.message, one!.public_key)]

/**
 * The strict check of 224-byte bodies, as those of orders, by as many keys as the orders of `place` have, on one thread;
 * default: the platform's.
 * @param together signatures of one call
 */
export function verifyLimit(verify = onePlatform, together = 1): VerifyLimit {
  const signed = Array.from({ length: KEYS }, (_, at) => {
    const pair = pairNamed(`limit ${at}`)
    const message = new Uint8Array(224).fill(at)
    return { message, public_key: pair.public_key, signature: pair.sign(message) }
  })
  const check = (count: number) => {
    for (let at = 0; at < count; at += together) {
      const from = at % signed.length
      const verdicts = verify(signed.slice(from, from + together))
      if (!verdicts.every(Boolean)) throw new Error('a signature did not verify')
    }
  }
  check(KEYS)
  const rates: number[] = []
  const costs: number[] = []
  for (let round = 0; round < 8; round++) {
    const cpu = process.cpuUsage()
    const started = performance.now()
    check(KEYS)
    const { user, system } = process.cpuUsage(cpu)
    rates.push(KEYS * (1_000 / (performance.now() - started)))
    costs.push((user + system) / KEYS)
  }
  return { per_second: median(rates), cpu_us: median(costs) }
}

const SYNC_FILE_BYTES = 4 * 1024 * 1024

/** Runs `work` on an open file whose blocks are written, as those of the journal's segments are. */
async function onPreparedFile<T>(work: (fd: number) => T | Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-sync-'))
  const fd = openSync(join(dir, 'file'), 'w')
  try {
    writeSync(fd, new Uint8Array(SYNC_FILE_BYTES))
    fdatasyncSync(fd)
    return await work(fd)
  } finally {
    closeSync(fd)
    rmSync(dir, { recursive: true })
  }
}

/** Writes of one 512-byte sector with fdatasync into a prepared file, per second. */
export function syncLimit(seconds = 1): Promise<number> {
  return onPreparedFile((fd) => {
    const sector = named('sector', 64)
    const until = performance.now() + seconds * 1_000
    let writes = 0
    for (; performance.now() < until; writes++) {
      writeSync(fd, sector, 0, sector.length, (writes * 512) % SYNC_FILE_BYTES)
      fdatasyncSync(fd)
    }
    return writes / seconds
  })
}

/** Milliseconds that single writes of `bytes` with fdatasync take, about a millisecond apart. */
export function pacedSyncs(bytes: number, count = 1_500): Promise<number[]> {
  return onPreparedFile(async (fd) => {
    const group = new Uint8Array(bytes).fill(7)
    const times_ms: number[] = []
    for (let at = 0; at < count; at++) {
      await Bun.sleep(1)
      const began_ms = performance.now()
      writeSync(fd, group, 0, bytes, (at * bytes) % (SYNC_FILE_BYTES - bytes))
      fdatasyncSync(fd)
      times_ms.push(performance.now() - began_ms)
    }
    return times_ms
  })
}
