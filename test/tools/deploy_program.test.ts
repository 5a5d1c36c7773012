/** The program is deployed, opened and upgraded over plain JSON-RPC; a machine is read and announced as it shows itself. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Address, lamports } from '@solana/kit'
import { BARE_POLICY } from '../../client/verify/policy'
import { type Enclave, KEY_PATHS } from '../../enclave/contract'
import { addressOf } from '../../engine/chain/client/chain_client'
import { readDeployment, VaultAbsent } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { decodeAnnouncement } from '../../protocol/vault/accounts'
import { programDataAddress } from '../../protocol/vault/addresses'
import {
  ANNOUNCED_LISTS,
  announceInstruction,
  announcementAddress,
  initializeInstruction,
  pauseInstruction,
} from '../../protocol/vault/admin'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/join_process'
import { type MachineQuestion, readMachine } from '../../tools/machine/main'
import { type DeployRun, deployProgram, planProgram } from '../../tools/program/deploy_program'
import { describe as describeInstruction, requireDerived } from '../../tools/program/unsigned'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import { chainFolder, clientsOf, withChain } from '../kit/chain/chain_folder'
import { OperatorDesk } from '../kit/program_command'
import { administerVault } from '../kit/vault/open_vault'
import { changedPolicy } from '../kit/verify/site'

const ELF = new Uint8Array(readFileSync(join(import.meta.dir, '../../program/vault.so')))
const keyOf = (seed: Uint8Array) => ({ address: publicKeyOf(seed), seed })
async function fund(chain: { url: string }, seed: Uint8Array): Promise<void> {
  const address = encodeBase58(publicKeyOf(seed)) as Address
  await clientsOf(chain).rpc.requestAirdrop(address, lamports(100_000_000_000n)).send()
}
const random = () => crypto.getRandomValues(new Uint8Array(32))
const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'nothing failed',
    (error: Error) => error.message,
  )

test('deploy, initialize, extend and upgrade', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const [payer, authority, address] = [random(), random(), random()]
    await fund(chain, payer)
    const steps: string[] = []
    const run: DeployRun = {
      rpc_urls: [chain.url],
      elf: ELF,
      payer,
      authority: keyOf(authority),
      program: keyOf(address),
      priority_fee_lamports: 0n,
      step: (what) => void steps.push(what),
    }
    const plan = await planProgram(run)
    expect(plan).toMatchObject({ kind: 'deploy', deployed: undefined, buffer_authority: undefined })
    expect(toHex(plan.elf_sha256)).toBe(toHex(sha256(ELF)))
    expect(steps).toEqual([])

    // Interrupted after some writes: the second run sends only the missing ones.
    const stop = (what: string) => {
      steps.push(what)
      if (steps.length === 10) throw new Error('interrupted')
    }
    expect(await failure(deployProgram({ ...run, step: stop }))).toBe('interrupted')
    const rest = await planProgram(run)
    expect(rest.buffer_authority).toEqual(publicKeyOf(authority))
    expect(rest.offsets.length).toBeLessThan(plan.offsets.length)
    expect(await deployProgram(run)).toBeUndefined()
    expect((await planProgram(run)).kind).toBe('unchanged')

    const program = publicKeyOf(address)
    const opened = initializeInstruction({
      program,
      program_data: programDataAddress(program),
      deployer: publicKeyOf(authority),
      admin: publicKeyOf(payer),
      exit_delay_s: 3_600,
      genesis_hash: chain.machine.genesis_hash,
    })
    await fund(chain, authority)
    await administerVault([chain.url], [payer, authority], opened, 0n)
    const vault = await readDeployment([chain.url], program)
    expect(vault.config).toMatchObject({ epoch: 0, generation: 0, exit_delay_s: 3_600 })
    const twice = failure(administerVault([chain.url], [payer, authority], opened, 0n))
    expect(await twice).toContain('the chain refused')

    const longer = { ...run, elf: concatBytes(ELF, Uint8Array.of(1, 2, 3, 4)) }
    expect(await planProgram(longer)).toMatchObject({ kind: 'upgrade', extension_bytes: 10_240 })
    expect(await deployProgram(longer)).toBeUndefined()
    expect(steps.slice(-2)).toEqual(['extend by 10240', 'upgrade'])
    expect((await readDeployment([chain.url], program)).config.exit_delay_s).toBe(3_600)
    expect(await failure(planProgram({ ...run, authority: keyOf(payer) }))).toContain(
      'may upgrade the program, not',
    )
  })
}, 120_000)

test('one key may both pay and hold the right to upgrade; a first deployment needs the keys', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const payer = random()
    await fund(chain, payer)
    const keys = { payer, authority: keyOf(payer), program: keyOf(random()) }
    const run = { rpc_urls: [chain.url], elf: ELF, ...keys, priority_fee_lamports: 0n, step: () => {} }
    const keyless = { ...run, authority: { address: publicKeyOf(payer) } }
    expect(await failure(planProgram(keyless))).toContain('a first deployment needs the keys')
    await deployProgram(run)
    expect(await planProgram(run)).toMatchObject({
      kind: 'unchanged',
      deployed: { authority: publicKeyOf(payer) },
    })
  })
})

test('a deployment asks for its cost before its first step, and that is enough', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const [authority, payer, second, taken] = [random(), random(), random(), random()]
    const steps: string[] = []
    const step = (what: string) => void steps.push(what)
    const common = { rpc_urls: [chain.url], authority: keyOf(authority), priority_fee_lamports: 0n, step }
    const give = (seed: Uint8Array, amount: bigint) =>
      clientsOf(chain)
        .rpc.requestAirdrop(encodeBase58(publicKeyOf(seed)) as Address, lamports(amount))
        .send()
    const refusedThenDone = async (run: DeployRun): Promise<void> => {
      const { needed_lamports: needed } = await planProgram(run)
      await give(run.payer, needed - 1n)
      const address = encodeBase58(publicKeyOf(run.payer))
      const refused = `the payer ${address} holds ${needed - 1n} lamports and needs ${needed}: send it SOL`
      expect(await failure(deployProgram(run))).toBe(refused)
      expect(steps).toEqual([])
      // Solana keeps no account that holds less than the rent of an empty one.
      await give(run.payer, 890_881n)
      expect(await deployProgram(run)).toBeUndefined()
      expect(steps.splice(0).length).toBeGreaterThan(10)
    }
    const program = keyOf(random())
    await refusedThenDone({ ...common, elf: ELF, payer, program })
    const longer = concatBytes(ELF, Uint8Array.of(1, 2, 3, 4))
    await refusedThenDone({ ...common, elf: longer, payer: second, program })
    await fund(chain, payer)
    await fund(chain, taken)
    chain.advance(10)
    const onto = { ...common, elf: ELF, payer, program: keyOf(taken) }
    expect(await failure(deployProgram(onto))).toContain('is an account already: a program needs a key')
    expect(steps).toEqual([])
  })
}, 120_000)

test('a key that holds no SOL is named, not waited for until every signing has expired', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const seed = random()
    const pause = pauseInstruction({ program: random(), admin: publicKeyOf(seed) })
    const payer = encodeBase58(publicKeyOf(seed))
    expect(await failure(administerVault([chain.url], [seed], pause, 7n))).toBe(
      `the payer ${payer} holds 0 lamports and needs 5007: send it SOL`,
    )
  })
})

let machine: Machine
let enclave: Enclave
let url: string
let authority: Uint8Array
let there = false
let waiting: Promise<void>
beforeAll(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  authority = publicKeyOf(await enclave.deriveKey(KEY_PATHS.epoch_authority))
  const port = Promise.withResolvers<number>()
  const absent = async () => {
    if (!there) throw new VaultAbsent('the vault does not exist at this program')
  }
  const log = openLog(() => undefined, Date.now)
  const at = { hostname: '127.0.0.1', port: 0 }
  waiting = proveUntilOpen(absent, { at, enclave, log, retry_ms: 5, listening: port.resolve })
  url = `https://127.0.0.1:${await port.promise}`
})
afterAll(async () => {
  there = true
  await waiting
  await enclave.close()
  await machine.close()
})

function question(more: Partial<MachineQuestion> = {}): MachineQuestion {
  const { compose_hash } = enclave.identity
  const policy = changedPolicy(BARE_POLICY, { roots_pem: machine.agent.root_pem })
  return { url, compose_hash, policy, collateral: machine.agent.collateral(), ...more }
}

async function outcome(asked: MachineQuestion): Promise<string> {
  try {
    return (await readMachine(asked, Date.now())).epoch_authority
  } catch (error) {
    return (error as Error).message
  }
}

test('the key of the machine is named', async () => {
  const facts = await readMachine(question(), Date.now())
  const { app_id, instance_id } = enclave.identity
  const { announcements, ...named } = facts
  expect(announcements.map(({ list }) => list).sort()).toEqual(Object.keys(ANNOUNCED_LISTS).sort())
  expect(announcements.at(-1)).toEqual({ list: 'epoch_authority', value: toHex(authority) })
  expect(announcements).toContainEqual({ list: 'build', id: enclave.identity.compose_hash })
  expect(named).toEqual({
    epoch_authority: encodeBase58(authority),
    app_id,
    instance_id,
    tcb_status: 'UpToDate',
    os_image: 'the policy names no operating system',
  })
  const policy = changedPolicy(BARE_POLICY, {
    roots_pem: machine.agent.root_pem,
    os_image_hashes: ['00'.repeat(32)],
  })
  expect(await outcome(question({ policy }))).toMatch(/image|operating system/)
})

test('another manifest, an unnamed root and a quote of an old platform are refused', async () => {
  expect(await outcome(question({ compose_hash: '00'.repeat(32) }))).toBe('another manifest runs there')
  expect(await outcome(question({ policy: BARE_POLICY }))).not.toBe(encodeBase58(authority))
  machine.agent.knobs.debug = true
  expect(await outcome(question())).not.toBe(encodeBase58(authority))
  machine.agent.knobs.debug = false
  expect(await outcome(question())).toBe(encodeBase58(authority))
})

test('a recorded answer and another key are refused: the nonce is of this question', async () => {
  const recorded = await enclave.keyProof('epoch_authority', '11'.repeat(32))
  const fresh = async (request: Request) => {
    const proof = await enclave.keyProof(
      'epoch_authority',
      new URL(request.url).searchParams.get('reportData')!,
    )
    return { ...proof, tee_pubkey: encodeBase58(new Uint8Array(32).fill(9)) }
  }
  for (const answer of [async () => recorded, fresh]) {
    const { cert_pem: cert, key_pem: key } = enclave.tls
    const liar = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls: { cert, key },
      fetch: async (request) => Response.json(await answer(request)),
    })
    expect(await outcome(question({ url: liar.url.href }))).toBe(
      'report_data is not this nonce and the epoch authority',
    )
    await liar.stop(true)
  }
})

const program_path = join(import.meta.dir, '../../program/vault.so')
const BUILD = '5a'.repeat(32)
const OTHER = 'a5'.repeat(32)
const folder = chainFolder()
let chain: OpenedChain
let desk: OperatorDesk
let program: Uint8Array

beforeAll(async () => {
  chain = await openEmbeddedChain({ slot_ms: 4, finalized_depth: 4, data_dir: folder.dir })
  desk = new OperatorDesk(chain)
  program = await makeGenesis(chain, { program_path })
  desk.key('admin.json', chain.admin_seed)
})
afterAll(async () => {
  await chain.close()
  desk[Symbol.dispose]()
  folder.remove()
})

const run = (command: string, key: string, ...more: string[]) =>
  desk.run([command, '--rpc', chain.url, '--program', encodeBase58(program), '--admin', key, ...more])
const build = (id: string) => ['--list', 'build', '--id', id]
const recordOf = (id: string) => {
  const address = announcementAddress(program, { list: 'build', id: Uint8Array.from(Buffer.from(id, 'hex')) })
  const account = chain.machine.bank.svm.getAccount(addressOf(address))
  return account.exists ? decodeAnnouncement(Uint8Array.from(account.data)) : undefined
}

test('a build is announced and revoked; nothing is sent without --execute', async () => {
  const dry = await run('announce', 'admin.json', ...build(BUILD))
  expect([dry.code, dry.out.includes(BUILD), recordOf(BUILD)]).toEqual([0, true, undefined])
  const done = await run('announce', 'admin.json', ...build(BUILD), '--execute')
  expect([done.code, done.error]).toEqual([0, ''])
  expect(toHex(recordOf(BUILD)!.id)).toBe(BUILD)
  expect(recordOf(BUILD)!.since_s + recordOf(BUILD)!.next_at_s).toBeGreaterThan(0)
  expect((await run('revoke', 'admin.json', ...build(BUILD), '--execute')).code).toBe(0)
  expect(recordOf(BUILD)).toMatchObject({ since_s: 0, next_at_s: 0 })
})

test('show lists the announcements, and each list whose last member could be revoked', async () => {
  const shown = async () => {
    const { out } = await desk.run(['show', '--rpc', chain.url, '--program', encodeBase58(program)])
    return JSON.parse(out).vault
  }
  expect((await shown()).without_successor).toEqual(['build', 'image', 'platform'])
  for (const id of [BUILD, OTHER])
    expect((await run('announce', 'admin.json', ...build(id), '--execute')).code).toBe(0)
  const { announced, without_successor } = await shown()
  expect(without_successor).toEqual(['image', 'platform'])
  expect(announced.map(({ id }: { id: string }) => id).sort()).toEqual([BUILD, OTHER])
})

test('an unknown list and an id or value of another width are usage faults', async () => {
  for (const args of [
    ['--list', 'builds', '--id', BUILD],
    ['--list', 'build', '--id', BUILD.slice(2)],
    ['--list', 'build', '--id', BUILD, '--value', '00'],
    ['--list', 'attestation_root', '--value', BUILD],
    ['--list', 'attestation_root'],
  ])
    expect([args, (await run('announce', 'admin.json', ...args)).code]).toEqual([args, 64])
})

test('a file whose record is that of another build is refused before it is signed', () => {
  const key = Uint8Array.from(Buffer.from(BUILD, 'hex'))
  const topic = { list: 'build', id: key, action: 'announce' } as const
  const instruction = announceInstruction({ program, admin: key, payer: key, ...topic })
  const draft = { instruction, genesis_hash: key, fee_payer: key }
  expect(() => requireDerived(draft, program)).not.toThrow()
  expect(describeInstruction(instruction).fields).toMatchObject({ list: 'build', id: BUILD })
  const other = { list: 'build', id: Uint8Array.from(Buffer.from(OTHER, 'hex')) } as const
  instruction.accounts[3]!.address = announcementAddress(program, other)
  expect(() => requireDerived(draft, program)).toThrow('account announcement')
})
