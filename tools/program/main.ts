/** `bun run program`: puts the vault program on a cluster and administers the vault; dry run first, keys by file. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { toHex } from '../../protocol/bytes'
import { administer, FLAGS, type ProgramOptions, rpcUrls, TEXTS } from './administer'
import { deployProgram, planProgram } from './deploy_program'
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
  const options: ProgramOptions = new Options(args, { texts: TEXTS, flags: FLAGS, words: 1 })
  const [command] = options.words
  if (command === undefined) throw new UsageFault()
  return command === 'deploy' ? deploy(options) : administer(command, options)
}

async function deploy(options: ProgramOptions): Promise<void> {
  const keys = {
    payer: options.seed('payer'),
    authority: options.seed('authority'),
    program: options.seed('program'),
  }
  const elf = new Uint8Array(readFileSync(options.text('elf', ELF)))
  const deployment = { rpc_urls: rpcUrls(options), elf, keys }
  print(await planProgram(deployment))
  if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
  await deployProgram({
    ...deployment,
    priority_fee_lamports: options.amount('priority-fee', '0'),
    renounce: options.flag('renounce'),
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
