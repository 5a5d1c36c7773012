/** `bun run program`: puts the vault program on a cluster and administers the vault; dry run first, keys by file. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { toHex } from '../../protocol/bytes'
import { runCommand, UsageFault } from '../run_command'
import { administer } from './administer'
import { deployProgram, planProgram } from './deploy_program'
import { amount, OPTIONS, type Options, readSeed, rpcUrls, text } from './options'
import type { DeploymentPlan } from './plan_deployment'

const USAGE = `usage: bun run program COMMAND --rpc URL[,URL] [--priority-fee LAMPORTS] [--execute]

  deploy --payer FILE --authority FILE --program FILE [--elf program/vault.so] [--renounce]
      deploys or upgrades the program; an interrupted run resumes.
      --renounce gives up the right to upgrade once the code is in place; this is final
  initialize --program ID --authority FILE --admin PUBKEY --signer PUBKEY [--exit-delay SECONDS]
      opens the vault; only the upgrade authority may, so before --renounce
  register-mint --program ID --admin FILE --mint PUBKEY --min-deposit N --min-exit N [--token-program spl|token-2022]
  pause | unpause --program ID --admin FILE
  announce-restore | cancel-restore --program ID --admin FILE
  announce-signer --key PUBKEY | apply-signer | cancel-signer --program ID --admin FILE

Without --execute nothing is signed or sent: the plan is printed. FILE holds an Ed25519 seed, as 32 bytes or as 64 hex
digits, or the array that solana-keygen writes. --rpc defaults to SOLANA_RPC_URL.`

const ELF = join(import.meta.dir, '../../program/vault.so')

async function run(args: string[]): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: true })
  const [command, ...rest] = positionals
  if (command === undefined || rest.length > 0) throw new UsageFault()
  return command === 'deploy' ? deploy(values) : administer(command, values)
}

async function deploy(values: Options): Promise<void> {
  const keys = {
    payer: readSeed(text(values, 'payer')),
    authority: readSeed(text(values, 'authority')),
    program: readSeed(text(values, 'program')),
  }
  const elf = new Uint8Array(readFileSync(text(values, 'elf', ELF)))
  const options = { rpc_urls: rpcUrls(values), elf, keys }
  print(await planProgram(options))
  if (values.execute !== true) return console.log('dry run: nothing was sent; add --execute')
  await deployProgram({
    ...options,
    priority_fee_lamports: amount(values, 'priority-fee', '0'),
    renounce: values.renounce === true,
    step: (what, signature) => console.log(`${what}: ${signature}`),
  })
}

function print(plan: DeploymentPlan): void {
  const { deployed, elf_sha256, rent, cost_lamports, offsets, ...rest } = plan
  const facts = {
    ...rest,
    elf_sha256: toHex(elf_sha256),
    deployed: deployed && {
      slot: deployed.slot,
      authority: deployed.authority ?? null,
      sha256: toHex(deployed.sha256),
    },
    writes: offsets.length,
    rent_lamports: Object.fromEntries(Object.entries(rent).map(([name, value]) => [name, value.toString()])),
    cost_lamports: cost_lamports.toString(),
  }
  console.log(JSON.stringify(facts, null, 2))
}

await runCommand(USAGE, run)
