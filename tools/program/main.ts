/** `bun run program`: puts the vault program on a cluster and administers the vault; dry run first, keys by file. */

import { existsSync, writeFileSync } from 'node:fs'
import { getBase64EncodedWireTransaction, getTransactionEncoder, type SignatureBytes } from '@solana/kit'
import { InputFault, Options, runCommand, UsageFault } from '../../client/cli/command'
import { Refused } from '../../client/verify/transcript'
import { addressOf } from '../../engine/chain/client/chain_client'
import { readGenesis } from '../../engine/chain/client/read_vault'
import { ChainUnavailable } from '../../engine/chain/client/rpc_pool'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf, sign } from '../../protocol/sign'
import {
  administer,
  checkFirst,
  ELF,
  FLAGS,
  keyOf,
  type ProgramOptions,
  printInstruction,
  requireConfirmation,
  rpcUrls,
  show,
  TEXTS,
  warnOfV1,
  writeUnsigned,
} from './administer'
import {
  type DeploymentPlan,
  deployProgram,
  planProgram,
  readAccounts,
  refusingV1,
  rentOf,
  testedBinary,
  withRpc,
} from './deploy_program'
import { landSigned, landTransaction } from './land_transaction'
import { createNonce, decodeNonce, NONCE_BYTES } from './loader'
import { compileDraft, type Draft, type Nonced, readDraft, readSigned, requireDerived } from './unsigned'

/** @throws Refused, also for a file whose accounts are not those of `--program` */
function readTransaction(path: string, options: ProgramOptions): Draft & { nonce: Nonced } {
  const program = options.address('program')
  const { nonce, ...draft } = readDraft(path)
  if (nonce === undefined) throw new Refused(`${path} is a multisig's proposal: its tool signs and sends it`)
  requireDerived(draft, program)
  printInstruction(draft.instruction)
  return { ...draft, nonce }
}

/** Adds the signature of a key file to the signed transaction; needs no network. @throws Refused */
function signDraft(path: string, options: ProgramOptions): void {
  const draft = readTransaction(path, options)
  const seed = options.seed('with')
  const signer = addressOf(publicKeyOf(seed))
  const to = options.text('signed')
  const transaction = existsSync(to) ? readSigned(to, draft) : compileDraft(draft)
  if (!(signer in transaction.signatures)) throw new Refused(`${signer} is no signer of ${path}`)
  if (!options.flag('execute')) {
    console.log('dry run: nothing was signed; add --execute')
    return
  }
  const signature = sign(seed, new Uint8Array(transaction.messageBytes)) as SignatureBytes
  const signatures = { ...transaction.signatures, [signer]: signature }
  writeFileSync(to, `${getBase64EncodedWireTransaction({ ...transaction, signatures })}\n`, { mode: 0o600 })
  console.log(`signed: ${to}`)
}

/** Lands a transaction that has all signatures; dry run without `--execute`. @throws Refused, ChainUnavailable */
async function submit(path: string, options: ProgramOptions): Promise<void> {
  const draft = readTransaction(path, options)
  const { instruction, nonce } = draft
  const signed = readSigned(options.text('signed'), draft)
  const missing = Object.entries(signed.signatures).filter(([, signature]) => signature === null)
  if (missing.length > 0)
    throw new Refused(`the signature of ${missing.map(([signer]) => signer).join(', ')} is missing`)
  await withRpc(rpcUrls(options), async (rpc) => {
    if (!equalBytes(await readGenesis(rpc), draft.genesis_hash))
      throw new Refused(`${path} is for the cluster ${encodeBase58(draft.genesis_hash)}, not for this one`)
    await checkFirst(rpc, instruction, draft.fee_payer, options)
    if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
    requireConfirmation(instruction)
    const wire = new Uint8Array(getTransactionEncoder().encode(signed))
    const signature = new Uint8Array(signed.signatures[addressOf(draft.fee_payer)]!)
    const advanced = async () => {
      const held = decodeNonce((await readAccounts(rpc, [nonce.account], 'finalized'))[0])
      return held === undefined || !equalBytes(held.nonce, nonce.value)
    }
    if (!(await landSigned(rpc, { signature, wire }, advanced)))
      throw new Refused('the nonce was advanced: this transaction can no longer land, write a new one')
    console.log(`landed: ${encodeBase58(signature)}`)
    await show(rpc, options.address('program'), options)
  })
}

const USAGE = `usage: bun run program COMMAND --rpc URL[,URL] [--priority-fee LAMPORTS] [--execute]

  deploy --payer FILE --authority FILE --program FILE [--elf program/vault.so]
      deploys or upgrades the program; an interrupted run resumes
  initialize --program ID --authority KEY --admin PUBKEY [--exit-delay SECONDS]
      opens the vault; only the upgrade authority may, so before renounce
  register-mint --program ID --admin KEY --mint PUBKEY --min-deposit N --min-exit N [--token-program spl|token-2022]
  pause | unpause --program ID --admin KEY
  announce-restore | cancel-restore --program ID --admin KEY
  announce-admin --key PUBKEY | cancel-admin --program ID --admin KEY
  apply-admin --program ID --admin KEY       KEY is the new admin's
  declare-outage --extra SECONDS --program ID --admin KEY
  announce | raise --list LIST [--id HEX] [--value HEX] --program ID --admin KEY
  revoke | cancel-announcement --list LIST [--id HEX] --program ID --admin KEY
      what attested epochs may rest on; protocol/vault/admin.ts has the lists with their ids and values
  set-authority --program ID --authority KEY --new PUBKEY
  renounce --program ID --authority KEY      ends upgrades, once the code on chain is program/vault.so
  show --program ID [--buffer ADDRESS] [--elf program/vault.so]

  create-nonce --payer FILE --key PUBKEY     a durable nonce that PUBKEY advances: one for each transaction under way
  sign UNSIGNED --program ID --with FILE --signed SIGNED
  submit UNSIGNED --program ID --signed SIGNED
      reject a file whose accounts are not those that its action has at ID

KEY is a key file, and --payer FILE another one that pays. With --unsigned UNSIGNED the command needs no key: KEY and
--payer are addresses, and the file UNSIGNED is written for other signers. For a multisig's address it is a proposal;
for a key, --nonce ADDRESS is needed, so that the transaction does not expire. deploy --unsigned --execute fills the
buffer, hands it to --authority PUBKEY and writes the upgrade of --program ID.

Without --execute nothing is signed or sent: the plan is printed. FILE holds an Ed25519 seed, as 32 bytes or as 64 hex
digits, or the array that solana-keygen writes. --rpc defaults to SOLANA_RPC_URL.
exit code: 0 done, 1 refused by the chain or a check, 2 too few providers answer, 64 usage`

async function run(args: string[]): Promise<void> {
  const options: ProgramOptions = new Options(args, { texts: TEXTS, flags: FLAGS, words: 2 })
  const [command, file] = options.words
  if (command === undefined) throw new UsageFault()
  const takes_file = command === 'sign' || command === 'submit'
  if (takes_file !== (file !== undefined)) throw new UsageFault()
  if (command === 'sign') return signDraft(file!, options)
  if (command === 'submit') return submit(file!, options)
  if (command === 'deploy') return deploy(options)
  if (command === 'create-nonce') return nonce(options)
  if (command === 'show')
    return withRpc(rpcUrls(options), (rpc) => show(rpc, options.address('program'), options))
  return administer(command, options)
}

async function deploy(options: ProgramOptions): Promise<void> {
  const deployment = {
    rpc_urls: rpcUrls(options),
    elf: testedBinary(options.text('elf', ELF)),
    payer: options.seed('payer'),
    authority: keyOf(options, 'authority'),
    program: keyOf(options, 'program'),
  }
  await withRpc(deployment.rpc_urls, async (rpc) => {
    print(await readGenesis(rpc), await planProgram(deployment))
    warnOfV1(await refusingV1(rpc, publicKeyOf(deployment.payer)))
    if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
    const left = await deployProgram({
      ...deployment,
      priority_fee_lamports: options.amount('priority-fee', '0'),
      step: (what, signature) => console.log(`${what}: ${signature}`),
    })
    if (left === undefined) return
    await checkFirst(rpc, left, deployment.authority.address, options)
    await writeUnsigned(rpc, left, deployment.authority.address, options)
  })
}

async function nonce(options: ProgramOptions): Promise<void> {
  const payer = options.seed('payer')
  await withRpc(rpcUrls(options), async (rpc) => {
    const rent = await rentOf(rpc, NONCE_BYTES)
    const { nonce: address, instructions } = createNonce(publicKeyOf(payer), options.address('key'), rent)
    console.log(`nonce account: ${encodeBase58(address)}`)
    if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
    const priority_fee_lamports = options.amount('priority-fee', '0')
    const landing = landTransaction(rpc, { seeds: [payer], instructions, priority_fee_lamports })
    console.log(`landed: ${await landing}`)
  })
}

function print(genesis_hash: Uint8Array, plan: DeploymentPlan): void {
  const { kind, deployed, rent } = plan
  const facts = {
    kind,
    genesis_hash: encodeBase58(genesis_hash),
    program_data: encodeBase58(plan.program_data),
    buffer: encodeBase58(plan.buffer),
    elf_sha256: toHex(plan.elf_sha256),
    deployed: deployed && {
      slot: deployed.slot,
      authority: deployed.authority ? encodeBase58(deployed.authority) : null,
      sha256: toHex(sha256(deployed.elf)),
    },
    extension_bytes: plan.extension_bytes,
    writes: plan.offsets.length,
    rent_lamports: Object.fromEntries(Object.entries(rent).map(([name, value]) => [name, value.toString()])),
    cost_lamports: plan.cost_lamports.toString(),
    needed_lamports: plan.needed_lamports.toString(),
  }
  console.log(JSON.stringify(facts, null, 2))
}

await runCommand(USAGE, run, (error) => {
  const code = error instanceof InputFault ? 64 : error instanceof ChainUnavailable ? 2 : 1
  return { code, message: error.message }
})
