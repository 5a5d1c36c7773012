/** Preloaded into the process of a soak: snapshots and certificates are replaced several times in the minutes of its life. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SELF_SIGNED_LIFE_MS } from '../../../enclave/limits'
import { generateTls } from '../../../enclave/x509'
import { SNAPSHOT_PACE } from '../../../engine/limits'
import { SELF_SIGNED } from '../../../server/tls/listen'

const RENEW_MS = 150_000

Object.assign(SNAPSHOT_PACE, { every_ms: 60_000 })
Object.assign(SELF_SIGNED, {
  check_ms: RENEW_MS / 10,
  isDue: ({ not_after_ms }: { not_after_ms: number }, unix_ms: number) =>
    not_after_ms - unix_ms <= SELF_SIGNED_LIFE_MS - RENEW_MS,
  async next() {
    const next = generateTls(['localhost'], Date.now())
    // Both: until the listener has the new one, connections get the old one.
    const trusted = join(process.env['TACIT_DATA_DIR']!, 'cert.pem')
    const newest = readFileSync(trusted, 'utf8').split(/(?<=-----END CERTIFICATE-----\n)/)[0]!
    writeFileSync(`${trusted}.new`, next.cert_pem + newest)
    renameSync(`${trusted}.new`, trusted)
    return next
  },
})
