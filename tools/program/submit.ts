/** Signs a file of an unsigned transaction on a machine with a key, and lands it once every signer has signed. */
import { existsSync, writeFileSync } from 'node:fs'
import { getBase64EncodedWireTransaction, getTransactionEncoder, type SignatureBytes } from '@solana/kit'
import { Refused } from '../../client/verify/transcript'
import { addressOf } from '../../engine/chain/client/chain_client'
import { readGenesis } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { publicKeyOf, sign } from '../../protocol/sign'
import {
  checkFirst,
  type ProgramOptions,
  printInstruction,
  requireConfirmation,
  rpcUrls,
  show,
} from './administer'
import { withRpc } from './deploy_program'
import { requireDerived } from './describe'
import { landSigned } from './land_transaction'
import { decodeNonce } from './loader'
import { readAccounts } from './plan_deployment'
import { compileDraft, type Draft, type Nonced, readDraft, readSigned } from './unsigned'

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
export function signDraft(path: string, options: ProgramOptions): void {
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
export async function submit(path: string, options: ProgramOptions): Promise<void> {
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
