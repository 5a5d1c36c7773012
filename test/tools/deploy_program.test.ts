/** The vault's program is deployed, opened, upgraded and sealed over plain JSON-RPC; what was interrupted goes on. */

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
import {
  administerVault,
  type DeployRun,
  deployProgram,
  planProgram,
} from '../../tools/program/deploy_program'
import { clientsOf, withChain } from '../kit/chain/chain_folder'

const ELF = new Uint8Array(readFileSync(join(import.meta.dir, '../../program/vault.so')))
const random = () => crypto.getRandomValues(new Uint8Array(32))
const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'nothing failed',
    (error: Error) => error.message,
  )

test('deploy, initialize, extend and upgrade, renounce', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const keys = { payer: random(), authority: random(), program: random() }
    const payer = encodeBase58(publicKeyOf(keys.payer)) as Address
    await clientsOf(chain).rpc.requestAirdrop(payer, lamports(100_000_000_000n)).send()
    const steps: string[] = []
    const run: DeployRun = {
      rpc_urls: [chain.url],
      elf: ELF,
      keys,
      priority_fee_lamports: 0n,
      renounce: false,
      step: (what) => void steps.push(what),
    }
    const plan = await planProgram(run)
    expect(plan).toMatchObject({ kind: 'deploy', deployed: undefined, elf_bytes: ELF.length })
    expect(toHex(plan.elf_sha256)).toBe(toHex(sha256(ELF)))
    expect(steps).toEqual([])

    // Interrupted after some writes: the second run sends only what is missing.
    const stop = (what: string) => {
      steps.push(what)
      if (steps.length === 10) throw new Error('interrupted')
    }
    expect(await failure(deployProgram({ ...run, step: stop }))).toBe('interrupted')
    const rest = await planProgram(run)
    expect(rest.buffer_exists).toBe(true)
    expect(rest.offsets.length).toBeLessThan(plan.offsets.length)
    await deployProgram(run)
    expect((await planProgram(run)).kind).toBe('unchanged')

    const program = publicKeyOf(keys.program)
    const opened = initializeInstruction({
      program,
      program_data: programDataAddress(program),
      deployer: publicKeyOf(keys.authority),
      admin: publicKeyOf(keys.payer),
      settlement_signer: random(),
      exit_delay_s: 3_600,
    })
    const authority = encodeBase58(publicKeyOf(keys.authority)) as Address
    await clientsOf(chain).rpc.requestAirdrop(authority, lamports(10_000_000_000n)).send()
    await administerVault([chain.url], [keys.payer, keys.authority], opened, 0n)
    const vault = await readDeployment([chain.url], program)
    expect(vault.config).toMatchObject({ epoch: 0, generation: 0, exit_delay_s: 3_600 })
    const twice = failure(administerVault([chain.url], [keys.payer, keys.authority], opened, 0n))
    expect(await twice).toContain('the chain refused')

    const longer = concatBytes(ELF, Uint8Array.of(1, 2, 3, 4))
    const upgrade = await deployProgram({ ...run, elf: longer, renounce: true })
    expect(upgrade).toMatchObject({ kind: 'upgrade', extension_bytes: 10_240 })
    expect(steps.slice(-3)).toEqual(['extend by 10240', 'upgrade', 'renounce'])
    expect((await readDeployment([chain.url], program)).config.exit_delay_s).toBe(3_600)
    expect(await failure(planProgram(run))).toContain('nobody may upgrade')
  })
}, 30_000)

test('one key may both pay and hold the right to upgrade', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    const authority = random()
    const keys = { payer: authority, authority, program: random() }
    const payer = encodeBase58(publicKeyOf(authority)) as Address
    await clientsOf(chain).rpc.requestAirdrop(payer, lamports(100_000_000_000n)).send()
    const run = { rpc_urls: [chain.url], elf: ELF, keys, priority_fee_lamports: 0n, step: () => {} }
    await deployProgram({ ...run, renounce: false })
    expect(await planProgram(run)).toMatchObject({ kind: 'unchanged', deployed: { authority: payer } })
  })
})

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
