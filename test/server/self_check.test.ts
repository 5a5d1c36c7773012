/** A process on a machine that clients reject: it serves, proves what it is, and neither opens an epoch nor trades. */
import { expect, test } from 'bun:test'
import { openChain } from '../../engine/chain/open_chain'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { sandboxEnvironment } from '../../sandbox/environment'
import { openLog } from '../../server/edge/log'
import { joinProcess } from '../../server/join_process'
import { readConfig } from '../../server/settings/config'
import { openMachine } from '../enclave/machine'
import { chainFolder } from '../kit/chain/chain_folder'

const PROGRAM = new URL('../../program/vault.so', import.meta.url).pathname
const SLOT_MS = 10

test('a machine under debug opens no epoch, is not ready, and says why', async () => {
  const folder = chainFolder()
  const machine = await openMachine({ debug: true })
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
    async openChain({ identity, settlement_seed }, hash) {
      const settlement_signer = identity.tee_pubkey
      const program_id = await makeGenesis(chain, { program_path: PROGRAM, settlement_signer })
      const { monotonicMs } = clock
      const endpoint = { rpc_urls: [chain.url], program_id, settlement_seed }
      return openChain({ ...endpoint, hash, slot_ms: SLOT_MS, monotonicMs })
    },
  })
  try {
    const url = `https://127.0.0.1:${running.listener.port}`
    const tls = { ca: running.enclave.tls.cert_pem }
    const status = (await (await fetch(`${url}/system/status`, { tls })).json()) as {
      ready: boolean
      reasons: string[]
    }
    expect(status).toMatchObject({ ready: false, matching: 'stopped' })
    expect(status.reasons.join()).toContain('opens no epoch: the machine is under debug')
    expect((await (await fetch(`${url}/info`, { tls })).json()) as object).toMatchObject({ epoch: 0 })
    expect(lines.join('\n')).toContain('not_trading')
  } finally {
    await running.stop()
    await chain.close()
    await machine.close()
    folder.remove()
  }
}, 30_000)
