/** Every alert that a fault outside the process raises: caused on a venue with its chain, and ended by its runbook's step. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import type { TlsMaterial } from '../../enclave/contract'
import { generateTls } from '../../enclave/x509'
import { openOperatorCheck } from '../../engine/accounts/verify_operator'
import { LIMITS, SNAPSHOT_PACE } from '../../engine/limits'
import { encodeBase58 } from '../../protocol/base58'
import { scrapeToken } from '../../protocol/bodies/signed_calls'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type { Collateral } from '../../protocol/tdx/collateral'
import { decodeTransaction } from '../../sandbox/chain/transaction_meta'
import { machinePolicy, USDC } from '../../sandbox/environment'
import { openLog } from '../../server/edge/log'
import { openMeters } from '../../server/edge/meters'
import { METRICS_AGE_MS, METRICS_STEP } from '../../server/limits'
import { operatorApp } from '../../server/operator/operator'
import { type KeptCollateral, keepCollateral, selfCheck } from '../../server/self_check'
import { renewIfDue, SELF_SIGNED } from '../../server/tls/listen'
import { type Machine, olderCollateral, openMachine, openOn } from '../enclave/machine'
import { signedTransfer } from '../kit/chain/chain_folder'
import { LyingEndpoint } from '../kit/chain/lying_endpoint'
import { PROMETHEUS, Prometheus, RULES } from '../kit/server/prometheus'
import { isMountable, withSmallVolume } from '../kit/small_volume'
import { EmbeddedTrading, requestExit } from '../kit/venue/embedded_site'
import { OPERATOR_SEED } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const DAY_MS = 86_400_000
const MIB = 2 ** 20
/** Less than the six hours of TacitExitDeadline. */
const EXIT_DELAY_S = 5 * 3_600
const runs = PROMETHEUS !== undefined && isMountable()
if (!runs) console.log('skipped: needs the package prometheus and the right to mount a volume')

const world = new EmbeddedTrading()
const { site } = world
const keys = mkdtempSync(join(tmpdir(), 'tacit-causes-'))
const providers: LyingEndpoint[] = []
let prometheus: Prometheus
let listener: Bun.Server<undefined>
let volume: string
let leave: () => void
/** The certificate that is served, and whether the next renewal fails. */
let served: TlsMaterial
let renewal_fails = false
let machine: Machine
let kept: KeptCollateral
/** Answers of Intel's service. */
let collateral: Collateral
/** How far the clock that ages the metrics is ahead. */
let metrics_later_ms = 0
const meters = openMeters()
const { scrub_every_ms } = LIMITS

async function renew(): Promise<void> {
  const enclave = {
    tls: served,
    rotateTls: async () => {
      if (renewal_fails) throw new Error('the guest agent does not answer')
      return generateTls([], Date.now())
    },
  }
  const rotate = (tls: TlsMaterial): void => {
    served = tls
  }
  const clock = { unixMs: () => Date.now(), monotonicMs: () => performance.now() }
  const log = openLog(() => undefined, clock.unixMs)
  await renewIfDue({ enclave, listeners: [{ rotate }], clock, log, source: SELF_SIGNED })
}

beforeAll(async () => {
  if (!runs) return
  const { promise, resolve } = Promise.withResolvers<void>()
  leave = resolve
  volume = await new Promise<string>((mounted, failed) => {
    withSmallVolume('1300m', (dir) => {
      mounted(dir)
      return promise
    }).catch(failed)
  })
  // One file after another: with the stores' files a round takes minutes otherwise.
  Object.assign(LIMITS, { scrub_every_ms: 500 })
  await site.openChain({}, 8, EXIT_DELAY_S)
  for (let count = 0; count < 3; count++) providers.push(new LyingEndpoint(site.chain.url))
  site.rpc_urls = providers.map(({ url }) => url)
  const venue = await site.openVenue(volume)
  await site.issue('alice')
  world.alice = world.trader('alice')
  served = generateTls([], Date.now() - 80 * DAY_MS)
  await renew()
  machine = await openMachine()
  collateral = machine.agent.collateral()
  const enclave = await openOn(machine.agent)
  const terms = { policy: machinePolicy(machine.agent.root_pem), collect: async () => collateral }
  const judge = () => selfCheck({ enclave, terms, data_dir: machine.data_dir, now_ms: Date.now() })
  const wall = { unixMs: () => Date.now() }
  const log = openLog(() => undefined, wall.unixMs)
  kept = keepCollateral({ first: await judge(), judge, clock: wall, log, every_ms: 500 })
  const venue_id = fromHex(venue.identity().venue, 32)!
  const clock = { unixMs: () => Date.now(), monotonicMs: () => performance.now() + metrics_later_ms }
  const { fetch } = operatorApp({
    venue: venue.parsed,
    log,
    clock,
    documents: { json: '', html: '', css: '', streams: '', index: '', files: new Map() },
    check: openOperatorCheck({
      operator_key: encodeBase58(publicKeyOf(OPERATOR_SEED)),
      venue: venue_id,
      clock,
    }),
    app: { meters },
    ends: () => ({ certificate_ms: served.not_after_ms, collateral_ms: kept.endsMs() }),
    drain: () => undefined,
  })
  listener = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => fetch(request) })
  const scrape_token = scrapeToken(venue_id, Math.floor(Date.now() / 1000) + 3_600, OPERATOR_SEED)
  prometheus = await Prometheus.open({ port: listener.port!, scrape_token })
  await prometheus.until(
    'calm',
    async () => (await quiet()) && (await prometheus.numberOf('tacit_ready')) === '1',
  )
}, 120_000)

afterAll(async () => {
  Object.assign(LIMITS, { scrub_every_ms })
  await prometheus?.remove()
  kept?.stop()
  await machine?.close()
  await listener?.stop(true)
  await site.remove()
  for (const provider of providers) await provider.stop()
  leave?.()
  rmSync(keys, { recursive: true, force: true })
})

const quiet = async () => (await prometheus.firing()).length === 0
const caused = new Set<string>()

/** Breaks something, sees every alert of `names` fire, mends it, and sees all alerts end. */
async function holds(
  names: readonly string[],
  fault: () => unknown,
  mend: () => unknown,
  reasons: readonly string[] = [],
): Promise<void> {
  await fault()
  for (const name of names) await prometheus.until(name, () => prometheus.fires(name), 200)
  for (const reason of reasons) await prometheus.until(reason, () => prometheus.fires('TacitReason', reason))
  await mend()
  await prometheus.until('end of the alerts', quiet, 200)
  for (const name of names) caused.add(name)
}

/** `bun run program COMMAND`, as the runbook has it. */
async function administer(command: string): Promise<void> {
  const key = join(keys, 'admin.json')
  writeFileSync(key, toHex(site.chain.admin_seed))
  const { program_id, url } = site.chain
  const target = ['--rpc', url, '--program', encodeBase58(program_id!), '--admin', key, '--execute']
  const child = Bun.spawn([process.execPath, join(ROOT, 'tools/program/main.ts'), command, ...target], {
    stdout: 'ignore',
    stderr: 'pipe',
  })
  expect([await new Response(child.stderr).text(), await child.exited]).toEqual(['', 0])
}

async function pay(from_seed: Uint8Array, to: Uint8Array, lamports: bigint): Promise<void> {
  const from = await createKeyPairSignerFromPrivateKeyBytes(from_seed)
  const { wire } = await signedTransfer(site.chain, from, encodeBase58(to), lamports)
  site.chain.machine.enqueue(decodeTransaction(new Uint8Array(Buffer.from(wire, 'base64'))))
}

test.skipIf(!runs)(
  'less than 1 GiB is free',
  async () => {
    const filler = join(volume, 'not-the-venues')
    const { bavail, bsize } = statfsSync(volume)
    await holds(
      ['TacitDiskLow'],
      () => writeFileSync(filler, new Uint8Array(bavail * bsize - 960 * MIB)),
      () => rmSync(filler),
    )
  },
  120_000,
)

test.skipIf(!runs)(
  'the fee payer has spent its SOL',
  async () => {
    const { admin_seed } = site.chain
    const [payer, admin] = [publicKeyOf(site.fee_seed), publicKeyOf(admin_seed)]
    const held = site.chain.machine.accountAt(encodeBase58(payer), 'finalized')!.lamports
    const spent = held - 400_000_000n
    await holds(
      ['TacitFeePayer'],
      () => pay(site.fee_seed, admin, spent),
      () => pay(admin_seed, payer, spent - 1_000_000n),
    )
  },
  120_000,
)

test.skipIf(!runs)(
  'a provider went down',
  async () => {
    const [provider] = providers
    const set = (silent: boolean) => {
      provider!.silent = silent
    }
    await holds(
      ['TacitProviders', 'TacitReason'],
      () => set(true),
      () => set(false),
      ['provider_silent'],
    )
  },
  120_000,
)

test.skipIf(!runs)(
  'too few providers answer',
  async () => {
    const set = (hanging: boolean) => {
      for (const provider of providers.slice(1)) provider.hanging = hanging
    }
    await holds(
      ['TacitChainLag', 'TacitUnanchored', 'TacitNotReady', 'TacitReason'],
      async () => {
        set(true)
        // An acknowledged record that waits for its anchor.
        await site.issue('bob')
      },
      () => set(false),
      ['chain_stalled'],
    )
  },
  240_000,
)

test.skipIf(!runs)(
  'a snapshot cannot be written, and a written one is damaged',
  async () => {
    const [snapshots, away] = [join(volume, 'snapshots'), join(volume, 'snapshots.away')]
    const due = () => {
      site.later_ms += SNAPSHOT_PACE.every_ms
    }
    await holds(
      ['TacitSnapshotsFail'],
      () => {
        renameSync(snapshots, away)
        writeFileSync(snapshots, '')
        due()
      },
      () => {
        rmSync(snapshots)
        renameSync(away, snapshots)
      },
    )
    const made = () => readdirSync(snapshots).filter((name) => name.endsWith('.snapshot'))
    if (made().length === 0) due()
    await prometheus.until('a snapshot', async () => made().length > 0)
    const newest = join(snapshots, made().sort().at(-1)!)
    const content = readFileSync(newest)
    const damaged = Uint8Array.from(content)
    damaged[damaged.length >> 1]! ^= 1
    await holds(
      ['TacitFilesDamaged', 'TacitReason'],
      () => writeFileSync(newest, damaged),
      () => writeFileSync(newest, content),
      ['file_damaged'],
    )
  },
  240_000,
)

test.skipIf(!runs)(
  'an exit request waits while the admin has paused the vault',
  async () => {
    const deposit = await world.deposited(world.alice, USDC, 6_000_000n)
    const destination = await world.payee(USDC)
    await holds(
      ['TacitExitsOpen', 'TacitExitDeadline', 'TacitNotReady', 'TacitReason'],
      async () => {
        await administer('pause')
        await prometheus.until('pause', () => prometheus.fires('TacitReason', 'vault_paused'))
        await requestExit(site, world.alice, deposit, destination)
      },
      () => administer('unpause'),
      ['vault_paused'],
    )
    expect(world.balance(destination)).toBe(6_000_001n)
  },
  240_000,
)

test.skipIf(!runs)(
  'the certificate is not renewed',
  async () => {
    await holds(
      ['TacitCertificateEnds'],
      async () => {
        renewal_fails = true
        served = generateTls([], Date.now() - 80 * DAY_MS)
        await renew()
      },
      async () => {
        renewal_fails = false
        await renew()
      },
    )
  },
  120_000,
)

test.skipIf(!runs)(
  "Intel's collateral is not renewed",
  async () => {
    const fresh = collateral
    await holds(
      ['TacitCollateralEnds'],
      () => {
        collateral = olderCollateral(machine, 24)
      },
      () => {
        collateral = fresh
      },
    )
  },
  120_000,
)

test.skipIf(!runs)('no alert is left that only its cases raise', () => {
  // alerts.test.ts kills the process.
  caused.add('TacitDown')
  const all = [...RULES.matchAll(/alert: (\w+)/g)].map(([, name]) => name!)
  expect([...caused].sort()).toEqual(all.sort())
  expect(site.fatal).toEqual([])
})

test.skipIf(!runs)(
  'every expression of the dashboard gives a series',
  async () => {
    const expressions = [
      ...readFileSync(join(ROOT, 'docs/dashboard.json'), 'utf8').matchAll(/"expr": "(.+)"/g),
    ]
    expect(expressions.length).toBeGreaterThan(15)
    for (let count = 0; count < METRICS_STEP; count++) {
      meters.refused('token_invalid')
      // An event, and the commit of the read models that has it.
      await site.issue(`account ${count}`)
      await Bun.sleep(LIMITS.history_batch_delay_ms)
    }
    // Counts of messages are shown once they are old.
    for (const shown of ['tacit_http_refusals_total', 'tacit_history_commit_seconds_bucket'])
      await prometheus.until(shown, async () => {
        metrics_later_ms += METRICS_AGE_MS
        return (await prometheus.series(`rate(${shown}[10m])`)) > 0
      })
    for (const [, expression] of expressions) {
      // A reason is a series that is 0 while it is not given.
      const always = expression!.replace('tacit_reason == 1', 'tacit_reason')
      expect([always, (await prometheus.series(always)) > 0]).toEqual([always, true])
    }
  },
  120_000,
)
