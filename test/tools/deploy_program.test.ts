/** The vault's program is deployed, opened and upgraded over plain JSON-RPC; what was interrupted goes on. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Address, lamports } from '@solana/kit'
import { readDeployment } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { programDataAddress } from '../../protocol/vault/addresses'
import { initializeInstruction, pauseInstruction } from '../../protocol/vault/admin'
import { type DeployRun, deployProgram, planProgram } from '../../tools/program/deploy_program'
import { clientsOf, withChain } from '../kit/chain/chain_folder'
import { administerVault } from '../kit/vault/administer_vault'

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

    // Interrupted after some writes: the second run sends only what is missing.
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

test('what a deployment needs is asked for before its first step, and is enough', async () => {
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
