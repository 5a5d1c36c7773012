/**
 * Writes and reads files of unsigned transactions. A key signs one that lives on a durable nonce, so it may take as long as
 * it needs; a multisig's address signs by proposal, whose instructions do not expire.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import {
  AccountRole,
  appendTransactionMessageInstructions,
  type Blockhash,
  compileTransaction,
  createTransactionMessage,
  getTransactionDecoder,
  getTransactionEncoder,
  type Instruction,
  isOffCurveAddress,
  type Nonce,
  pipe,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLifetimeUsingDurableNonce,
  type Transaction,
} from '@solana/kit'
import { readInputText, UsageFault } from '../../client/cli/command'
import { Refused } from '../../client/verify/transcript'
import { addressOf } from '../../engine/chain/client/chain_client'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { describe } from './describe'

export type Nonced = { account: Uint8Array; authority: Uint8Array; value: Uint8Array }
export type Draft = {
  /** Of the cluster it is for. */
  genesis_hash: Uint8Array
  fee_payer: Uint8Array
  /** Absent in a multisig's proposal. */
  nonce?: Nonced
  instruction: VaultInstruction
}

/**
 * The transaction without signatures. Legacy: every signing device and multisig tool reads that form, and each of these
 * instructions fits it.
 */
export function compileDraft({ fee_payer, nonce, instruction }: Draft): Transaction {
  const message = pipe(createTransactionMessage({ version: 'legacy' }), (m) =>
    setTransactionMessageFeePayer(addressOf(fee_payer), m),
  )
  const instructions = [plain(instruction)]
  if (nonce === undefined) {
    const lifetime = { blockhash: encodeBase58(new Uint8Array(32)) as Blockhash, lastValidBlockHeight: 0n }
    const timed = setTransactionMessageLifetimeUsingBlockhash(lifetime, message)
    return compileTransaction(appendTransactionMessageInstructions(instructions, timed))
  }
  const lifetime = {
    nonce: encodeBase58(nonce.value) as Nonce,
    nonceAccountAddress: addressOf(nonce.account),
    nonceAuthorityAddress: addressOf(nonce.authority),
  }
  const timed = setTransactionMessageLifetimeUsingDurableNonce(lifetime, message)
  return compileTransaction(appendTransactionMessageInstructions(instructions, timed))
}

function plain({ program, accounts, data }: VaultInstruction): Instruction {
  const roles = accounts.map(({ address, signer, writable }) => {
    const [signs, reads] = writable
      ? ([AccountRole.WRITABLE_SIGNER, AccountRole.WRITABLE] as const)
      : ([AccountRole.READONLY_SIGNER, AccountRole.READONLY] as const)
    return { address: addressOf(address), role: signer ? signs : reads }
  })
  return { programAddress: addressOf(program), accounts: roles, data }
}

/** @throws UsageFault where the signers cannot sign it in this form */
function requireSignable(draft: Draft): void {
  const signers = Object.keys(compileDraft(draft).signatures) as ReturnType<typeof addressOf>[]
  const programs = signers.filter((signer) => isOffCurveAddress(signer))
  if (programs.length === 0 && draft.nonce === undefined)
    throw new UsageFault(
      '--nonce is missing: without a nonce account a transaction expires before it is signed',
    )
  if (programs.length > 0 && (signers.length > 1 || draft.nonce !== undefined))
    throw new UsageFault(`${programs[0]} signs by proposal: it pays and signs alone, without --nonce`)
}

function textOf(draft: Draft): string {
  const { genesis_hash, fee_payer, nonce, instruction } = draft
  const { name, means, fields, accounts } = describe(instruction)
  const transaction = compileDraft(draft)
  const proposal = encodeBase58(new Uint8Array(getTransactionEncoder().encode(transaction)))
  const file = {
    format: 'tacit/unsigned/v1',
    genesis_hash: encodeBase58(genesis_hash),
    name,
    means,
    fields,
    fee_payer: encodeBase58(fee_payer),
    signers: Object.keys(transaction.signatures),
    nonce: nonce && {
      account: encodeBase58(nonce.account),
      authority: encodeBase58(nonce.authority),
      value: encodeBase58(nonce.value),
    },
    instructions: [
      {
        program_id: encodeBase58(instruction.program),
        accounts: accounts.map(({ name: account, address, signer, writable }) => {
          return { name: account, pubkey: encodeBase58(address), is_signer: signer, is_writable: writable }
        }),
        data_base64: Buffer.from(instruction.data).toString('base64'),
      },
    ],
    ...(nonce ? { message_base64: Buffer.from(transaction.messageBytes).toString('base64') } : {}),
    ...(nonce ? {} : { proposal_base58: proposal }),
  }
  return `${JSON.stringify(file, null, 2)}\n`
}

/** Writes a new file. @throws UsageFault, or the error of a file that exists */
export function writeDraft(path: string, draft: Draft): void {
  requireSignable(draft)
  writeFileSync(path, textOf(draft), { flag: 'wx', mode: 0o600 })
}

type File = {
  genesis_hash: string
  fee_payer: string
  nonce?: Record<keyof Nonced, string>
  instructions: [
    {
      program_id: string
      accounts: { pubkey: string; is_signer: boolean; is_writable: boolean }[]
      data_base64: string
    },
  ]
}

/** @throws Refused unless every byte of the file follows from its instruction, payer, nonce and cluster */
export function readDraft(path: string): Draft {
  const refused = new Refused(`${path} is not a file that --unsigned wrote, or it was changed`)
  const text = readInputText(path)
  try {
    const draft = parseDraft(JSON.parse(text) as File)
    if (textOf(draft) === text) return draft
  } catch {
    // Content of the file may be anything, so nothing of it is shown.
  }
  throw refused
}

function parseDraft({ genesis_hash, fee_payer, nonce, instructions: [instruction] }: File): Draft {
  const key = (text: string): Uint8Array => decodeBase58(text, 32)!
  return {
    genesis_hash: key(genesis_hash),
    fee_payer: key(fee_payer),
    ...(nonce && {
      nonce: { account: key(nonce.account), authority: key(nonce.authority), value: key(nonce.value) },
    }),
    instruction: {
      program: key(instruction.program_id),
      accounts: instruction.accounts.map(({ pubkey, is_signer, is_writable }) => {
        return { address: key(pubkey), signer: is_signer, writable: is_writable }
      }),
      data: new Uint8Array(Buffer.from(instruction.data_base64, 'base64')),
    },
  }
}

/** A transaction of a draft with some or all signatures, from base64. @throws Refused for any other transaction */
export function readSigned(path: string, draft: Draft): Transaction {
  const wanted = compileDraft(draft)
  let signed: Transaction
  try {
    const bytes = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64')
    signed = getTransactionDecoder().decode(new Uint8Array(bytes))
  } catch {
    throw new Refused(`${path} does not hold a transaction in base64`)
  }
  if (!equalBytes(new Uint8Array(signed.messageBytes), new Uint8Array(wanted.messageBytes)))
    throw new Refused(`${path} holds another transaction than the one described`)
  for (const [signer, signature] of Object.entries(signed.signatures)) {
    const valid = (bytes: Uint8Array) =>
      verifySignature(bytes, new Uint8Array(signed.messageBytes), decodeBase58(signer, 32)!)
    if (signature && !valid(new Uint8Array(signature)))
      throw new Refused(`the signature of ${signer} does not verify`)
  }
  return { ...wanted, signatures: signed.signatures }
}
