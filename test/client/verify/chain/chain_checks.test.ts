/** The vault on chain has the last word about the settlement key; the client reads it itself. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes, type Instruction } from '@solana/kit'
import { VerificationFailed } from '../../../../client/verified_venue'
import { decodeBase64 } from '../../../../client/verify/json_document'
import type { ChainPolicy } from '../../../../client/verify/policy'
import { toInstruction } from '../../../../engine/chain/client/build_transaction'
import { decodeBase58 } from '../../../../protocol/base58'
import { toHex } from '../../../../protocol/bytes'
import { CONFIG, decodeAnnouncement } from '../../../../protocol/vault/accounts'
import {
  announceInstruction,
  authorizeRestoreInstruction,
  pauseInstruction,
  setAdminInstruction,
} from '../../../../protocol/vault/admin'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import { landOn } from '../../../kit/verify/land_on'
import { openSite, type Site } from '../../../kit/verify/site'
import { LyingNode } from '../../lying_node'

let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterAll(() => site.close())

async function reasons(change: Partial<ChainPolicy> = {}): Promise<string[]> {
  try {
    await site.connect({ chain: { ...site.policy.chain!, ...change } })
    return []
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const failed = error.transcript.checks.filter((check) => check.result === 'fail')
    return failed.map((check) => `${check.name}: ${check.reason}`)
  }
}

async function asAdmin(make: (fields: { program: Uint8Array; admin: Uint8Array }) => VaultInstruction) {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(site.chain.admin_seed)
  const fields = { program: site.chain.program_id!, admin: decodeBase58(admin.address, 32)! }
  const instruction: Instruction = toInstruction(make(fields), [admin])
  await landOn(site.chain, admin, instruction)
}

test('the pinned cluster, program hash and length are compared', async () => {
  expect(await reasons()).toEqual([])
  const { evidence } = await site.connect()
  const { sha256 } = evidence.chain!.program_data
  expect(await reasons({ program_sha256: sha256, genesis_hash: evidence.chain!.genesis_hash })).toEqual([])
  expect(await reasons({ program_sha256: '00'.repeat(32) })).toEqual([
    'program: the program is another build than the pinned one',
  ])
  const other_cluster = await reasons({ genesis_hash: 'So11111111111111111111111111111111111111112' })
  expect(other_cluster[0]).toMatch(/settlement_signer: the chain is another cluster/)
  expect((await reasons({ program_bytes: 100 }))[0]).toMatch(/could not be read/)
})

test('an endpoint that does not answer refuses the venue', async () => {
  expect((await reasons({ rpc_url: 'http://127.0.0.1:1' }))[0]).toMatch(/chain could not be read/)
})

/** The reasons under an endpoint that flips a bit of byte `at` in account `index`: config, program, program data. */
async function reasonsUnderLie(index: number, at: number): Promise<string[]> {
  const { rpc_url } = site.policy.chain!
  const lying = new LyingNode(rpc_url)
  lying.lies = {
    getMultipleAccounts: (result) => {
      const account = (result as { value: { data: [string] }[] }).value[index]!
      const data = Buffer.from(account.data[0], 'base64')
      data[at]! ^= 1
      account.data[0] = data.toString('base64')
      return result
    },
  }
  const found = await reasons({ rpc_url: lying.url })
  await lying.stop()
  return found
}

test('a program account that names other data than its own is refused', async () => {
  expect((await reasonsUnderLie(1, 4))[0]).toMatch(/names other data/)
})

test('a vault that was initialized with the genesis hash of another cluster is refused', async () => {
  const venue_at = CONFIG.offsetOf('venue')
  expect(await reasonsUnderLie(0, venue_at)).toContain(
    'settlement_signer: the vault was initialized for another cluster',
  )
})

test('a vault that accepts another settlement key is refused', async () => {
  const other = await openSite()
  try {
    const { rpc_url, program_id } = other.policy.chain!
    expect(await reasons({ rpc_url })).not.toEqual([])
    // The venue states its own program; a client that pins another one reads that one.
    expect((await reasons({ rpc_url, program_id }))[0]).toMatch(/settlement_signer/)
  } finally {
    await other.close()
  }
})

test('an announced change is refused unless the policy expects it', async () => {
  await asAdmin((fields) =>
    setAdminInstruction({ ...fields, action: 'announce', key: new Uint8Array(32).fill(3) }),
  )
  expect(await reasons()).toEqual(['vault_state: the administrator has announced set_admin'])
  expect(await reasons({ pending_actions: ['set_admin'] })).toEqual([])
  await asAdmin((fields) => authorizeRestoreInstruction({ ...fields, action: 'announce' }))
  const pending_actions = ['set_admin' as const]
  expect(await reasons({ pending_actions })).toEqual([
    'vault_state: the administrator has announced authorize_restore',
  ])
  await asAdmin((fields) => authorizeRestoreInstruction({ ...fields, action: 'cancel' }))
  expect(await reasons({ pending_actions })).toEqual([])
})

const OTHER_BUILD = new Uint8Array(32).fill(0xcd)

test('each record that the machine rests on must be announced', async () => {
  const { rpc_url } = site.policy.chain!
  const pending_actions = ['set_admin' as const]
  const { evidence } = await site.connect({ chain: { ...site.policy.chain!, pending_actions } })
  const records = evidence.chain!.announced.map((data) => decodeAnnouncement(decodeBase64(data))!)
  expect(new Set(records.map(({ list }) => list)).size).toBe(10)
  for (const { list } of records) {
    const lying = new LyingNode(rpc_url)
    lying.lies = {
      getProgramAccounts: (result) => {
        const { context, value } = result as { context: object; value: { account: { data: [string] } }[] }
        const shown = value.filter(
          ({ account }) => decodeAnnouncement(decodeBase64(account.data[0]))!.list !== list,
        )
        return { context, value: shown }
      },
    }
    expect(await reasons({ rpc_url: lying.url, pending_actions })).toEqual([
      `announced: the vault does not admit the ${list} of this machine any more`,
    ])
    await lying.stop()
  }
})

test('a build that is announced for later is refused unless the policy expects it', async () => {
  const topic = { list: 'build', id: OTHER_BUILD } as const
  await asAdmin((fields) =>
    announceInstruction({ ...fields, payer: fields.admin, action: 'announce', ...topic }),
  )
  const pending_actions = ['set_admin' as const]
  const [reason] = await reasons({ pending_actions })
  expect(reason).toMatch(/^announced: the administrator has announced another build, (cd){32} from 20/)
  expect(await reasons({ pending_actions: [...pending_actions, 'build'] })).toEqual([])
  const accepted = [...site.policy.compose_hashes!, toHex(OTHER_BUILD)]
  const { chain } = site.policy
  const change = { chain: { ...chain!, pending_actions }, compose_hashes: accepted }
  const { transcript } = await site.connect(change)
  const { values } = transcript.checks.find(({ name }) => name === 'announced')!
  expect(values['later']).toMatch(/^build (cd){32} from 20/)
  expect(values['attestation_root']).toBe('of a development machine')
  await asAdmin((fields) =>
    announceInstruction({ ...fields, payer: fields.admin, action: 'cancel', ...topic }),
  )
})

test('a paused vault is refused unless the policy allows it', async () => {
  await asAdmin(pauseInstruction)
  const pending_actions = ['set_admin' as const]
  expect(await reasons({ pending_actions })).toEqual(['vault_state: the vault is paused'])
  expect(await reasons({ pending_actions, paused_allowed: true })).toEqual([])
})
