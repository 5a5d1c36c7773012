/** A process on a machine that clients reject: it serves, proves what it is, and neither opens an epoch nor trades. */

import { expect, test } from 'bun:test'
import { KEY_PATHS } from '../../enclave/key_paths'
import type { QuoteEpoch } from '../../engine/chain/client/chain_client'
import { openChain } from '../../engine/chain/open_chain'
import { publicKeyOf } from '../../protocol/sign'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { machinePolicy, sandboxEnvironment } from '../../sandbox/environment'
import { announcedOf } from '../../sandbox/open_sandbox'
import { openLog } from '../../server/edge/log'
import { joinProcess } from '../../server/join_process'
import { keepCollateral, selfCheck } from '../../server/self_check'
import { readConfig } from '../../server/settings/config'
import { type Machine, olderCollateral, openMachine, openOn } from '../enclave/machine'
import { chainFolder } from '../kit/chain/chain_folder'

const PROGRAM = new URL('../../program/vault.so', import.meta.url).pathname
const SLOT_MS = 10
const DAY_MS = 86_400_000

/** A whole process on the machine, with a separate chain. */
async function startOn(machine: Machine, collateral = machine.agent.collateral()) {
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ data_dir: `${folder.dir}/chain`, slot_ms: SLOT_MS })
  const { config, faults } = readConfig(
    await sandboxEnvironment({
      TACIT_DATA_DIR: folder.dir,
      TACIT_LISTEN: '127.0.0.1:0',
      TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    }),
  )
  if (faults !== undefined) throw new Error(faults.join())
  const lines: string[] = []
  const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }
  const running = await joinProcess({
    config: { ...config, dstack_socket: machine.agent.socket },
    version: '0.0.0',
    clock,
    log: openLog((line) => lines.push(line), clock.unixMs),
    fatal: (error) => expect.unreachable(error.message),
    drain: () => {},
    following: () => {},
    self_check: {
      policy: machinePolicy(machine.agent.root_pem),
      collect: async () => collateral,
    },
    async openChain(enclave, hash) {
      const { settlement_seed } = enclave
      const fee_seed = await enclave.deriveKey(KEY_PATHS.fees)
      const authority_seed = await enclave.deriveKey(KEY_PATHS.epoch_authority)
      const terms = { announced: await announcedOf(enclave), fee_payer: publicKeyOf(fee_seed) }
      const program_id = await makeGenesis(chain, { program_path: PROGRAM, ...terms })
      const { monotonicMs } = clock
      const endpoint = { rpc_urls: [chain.url], program_id, settlement_seed, authority_seed, fee_seed }
      const quoteEpoch: QuoteEpoch = (bound) => enclave.quoteEpoch(bound)
      return openChain({ ...endpoint, quoteEpoch, hash, slot_ms: SLOT_MS, monotonicMs })
    },
  })
  const url = `https://127.0.0.1:${running.listener.port}`
  const get = async (path: string) =>
    (await fetch(url + path, { tls: { ca: running.enclave.tls.cert_pem } })).json() as Promise<unknown>
  const stop = async () => {
    await running.stop()
    await chain.close()
    folder.remove()
  }
  return { get, lines, stop }
}

test.each([
  [{ debug: true }, 'the machine is under debug'],
  [{ wrong_compose_hash: true }, 'the venue states another manifest than it measured'],
  [{ revoked_pck: true }, 'a certificate is revoked'],
])(
  'a machine with %j opens no epoch, is not ready, and says why',
  async (knobs, reason) => {
    const machine = await openMachine(knobs)
    const { get, lines, stop } = await startOn(machine)
    try {
      const status = (await get('/system/status')) as { reasons: string[] }
      expect(status).toMatchObject({ ready: false, matching: 'stopped' })
      expect(status.reasons.join()).toContain(`opens no epoch: ${reason}`)
      expect(await get('/info')).toMatchObject({ epoch: 0 })
      expect(lines.join('\n')).toContain('not_trading')
    } finally {
      await stop()
      await machine.close()
    }
  },
  120_000,
)

test('a genuine machine opens its epoch and trades', async () => {
  const machine = await openMachine()
  const { get, lines, stop } = await startOn(machine)
  try {
    expect(await get('/system/status')).toMatchObject({ ready: true, matching: 'running', reasons: [] })
    expect(await get('/info')).toMatchObject({ epoch: 1 })
    expect(lines.join('\n')).not.toContain('not_trading')
  } finally {
    await stop()
    await machine.close()
  }
}, 120_000)

test.each([
  [22, []],
  [24, ['collateral_ends']],
])(
  'with collateral that is %d days old it trades, and warns within the last week',
  async (days, words) => {
    const machine = await openMachine()
    const { get, stop } = await startOn(machine, olderCollateral(machine, days))
    try {
      const status = (await get('/system/status')) as { ready: boolean; reasons: string[] }
      expect([status.ready, status.reasons.map((reason) => reason.split(':')[0]!)]).toEqual([true, words])
    } finally {
      await stop()
      await machine.close()
    }
  },
  120_000,
)

test('the kept collateral is renewed once the service answers, and its end is warned of until then', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  const old = olderCollateral(machine, 24)
  const fresh = machine.agent.collateral()
  let answer = () => Promise.resolve(old)
  const terms = { policy: machinePolicy(machine.agent.root_pem), collect: () => answer() }
  const lines: string[] = []
  let later_ms = 0
  const clock = { unixMs: () => Date.now() + later_ms }
  const judge = () => selfCheck({ enclave, terms, data_dir: machine.data_dir, now_ms: clock.unixMs() })
  const first = await judge()
  expect(first.reasons).toEqual([])
  const log = openLog((line) => lines.push(line), clock.unixMs)
  const kept = keepCollateral({ first, judge, clock, log, every_ms: 10 })
  const until = async (holds: () => boolean) => {
    while (!holds()) await Bun.sleep(5)
  }
  try {
    expect(Math.round((kept.endsMs() - Date.now()) / DAY_MS)).toBe(6)
    expect(kept.isEnding()).toBe(true)
    answer = () => Promise.reject(new Error('the service did not answer'))
    await Bun.sleep(50)
    expect([kept.isEnding(), lines]).toEqual([true, []])
    // Beyond its end nothing is known about the machine.
    later_ms = 7 * DAY_MS
    await until(() => lines.length > 0)
    expect(lines[0]).toMatch(/"machine_unjudged".*has expired.*the service did not answer/)
    later_ms = 0
    answer = () => Promise.resolve(fresh)
    await until(() => !kept.isEnding())
    expect(Math.round((kept.endsMs() - Date.now()) / DAY_MS)).toBe(30)
    // What was renewed is what the next start finds.
    answer = () => Promise.reject(new Error('the service did not answer'))
    expect((await judge()).valid_until_ms).toBe(kept.endsMs())
  } finally {
    kept.stop()
    await enclave.close()
    await machine.close()
  }
}, 120_000)
