/** A process on a machine that clients reject: it serves, proves what it is, and neither opens an epoch nor trades. */

import { expect, test } from 'bun:test'
import { KEY_PATHS } from '../../enclave/key_paths'
import { openChain } from '../../engine/chain/open_chain'
import { publicKeyOf } from '../../protocol/sign'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { machinePolicy, sandboxEnvironment } from '../../sandbox/environment'
import { openLog } from '../../server/edge/log'
import { joinProcess } from '../../server/join_process'
import { readConfig } from '../../server/settings/config'
import { type Machine, openMachine } from '../enclave/machine'
import { chainFolder } from '../kit/chain/chain_folder'

const PROGRAM = new URL('../../program/vault.so', import.meta.url).pathname
const SLOT_MS = 10

/** A whole process on the machine, with a chain of its own. */
async function startOn(machine: Machine) {
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
    self_check: {
      policy: machinePolicy(machine.agent.root_pem),
      collect: async () => machine.agent.collateral(),
    },
    async openChain(enclave, hash) {
      const { identity, settlement_seed } = enclave
      const fee_seed = await enclave.deriveKey(KEY_PATHS.fees)
      const keys = { settlement_signer: identity.tee_pubkey, fee_payer: publicKeyOf(fee_seed) }
      const program_id = await makeGenesis(chain, { program_path: PROGRAM, ...keys })
      const { monotonicMs } = clock
      const endpoint = { rpc_urls: [chain.url], program_id, settlement_seed, fee_seed }
      return openChain({ ...endpoint, hash, slot_ms: SLOT_MS, monotonicMs })
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
  30_000,
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
