/** Describes an instruction from its bytes alone, and writes and reads files of unsigned transactions. */

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
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { verifySignature } from '../../protocol/ed25519'
import {
  mintRecordAddress,
  programDataAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
  vaultAddresses,
  vaultTokenAddress,
} from '../../protocol/vault/addresses'
import { type AnnouncedList, announcementAddress } from '../../protocol/vault/admin'
import {
  type InstructionForm,
  instructionName,
  type VaultInstruction,
} from '../../protocol/vault/instruction'
import { INSTRUCTION_FORMS } from '../../protocol/vault/instruction_forms'
import { CLOCK, LOADER_FORMS, RENT } from './loader'

/** The effect of each instruction by its name, with its action where it has one. */
const MEANS: Readonly<Record<string, string>> = {
  initialize: 'the vault exists with this admin; epochs open with what is announced',
  register_mint: 'the vault takes this mint; its bounds are final',
  'set_admin announce': 'after twice the exit delay the key may take the admin role',
  'set_admin apply': 'the announced key, which signs this, is the admin',
  'set_admin cancel': 'the announced admin is void',
  'authorize_restore announce': 'after a quarter of the exit delay a venue may begin from the chain',
  'authorize_restore cancel': 'the announced restore is void',
  pause: 'deposits and settlement stop at once, exits never',
  unpause: 'deposits and settlement go on',
  declare_outage:
    'open exit requests get this much more time; not again for 90 days or until that time is over',
  'announce announce': 'after twice the exit delay an epoch may rest on this; before the first epoch at once',
  'announce cancel': 'the announced entry or value that does not hold yet is void',
  'announce revoke': 'no epoch rests on this from now on, announced or not',
  'announce raise': 'this minimum holds from now on',
  upgrade: 'the code in the buffer replaces the code of the program',
  set_authority: 'only the new authority may upgrade the program or buffer; a wrong address is final',
  renounce: 'the program can never change again; this is final',
}

type Described = {
  name: string
  means: string
  /** Fields of the data, addresses and hashes in base58, those of `announce` in hex. */
  fields: Record<string, string>
  accounts: { name: string; address: Uint8Array; signer: boolean; writable: boolean }[]
}

/** @throws Refused unless it is an operator's instruction with exactly the accounts of its form */
export function describe({ program, accounts, data }: VaultInstruction): Described {
  for (const [name, { data: layout, accounts: roles }] of formsOf(program, data)) {
    const names = Object.entries(roles)
    const fits = names.every(([, role], at) => {
      const account = accounts[at]
      return account?.signer === role.startsWith('s') && account.writable === role.endsWith('w')
    })
    const value = tryDecode(() => layout.decode(data)) as Record<string, unknown> | undefined
    const means = MEANS[[name, value?.['action'] ?? []].flat().join(' ')]
    if (!fits || names.length !== accounts.length || value === undefined || means === undefined) continue
    const fields = Object.entries(value).filter(([, field]) => field !== undefined)
    return {
      name,
      means,
      fields: Object.fromEntries(
        fields.map(([field, one]) => [field, name === 'announce' ? hexOf(one) : textOf(one)]),
      ),
      accounts: accounts.map((account, at) => ({ name: names[at]![0], ...account })),
    }
  }
  throw new Refused('an instruction is none that an operator sends')
}

/** Accounts that a signer chooses, and reads in the description. Every other one follows from the program and these. */
const CHOSEN = ['deployer', 'admin', 'payer', 'mint', 'authority', 'new_authority', 'buffer', 'spill']

/**
 * Derives every account that the action does not choose, for the program that its signer names.
 * @throws Refused naming the program, account or cluster that is another one
 */
export function requireDerived({ instruction, genesis_hash }: Draft, program: Uint8Array): void {
  const { accounts, fields } = describe(instruction)
  const of = Object.fromEntries(accounts.map(({ name, address }) => [name, address]))
  const its_mint = of['mint'] ?? program
  const is_2022 = of['token_program'] !== undefined && equalBytes(of['token_program'], TOKEN_2022_PROGRAM)
  const derived: Record<string, Uint8Array> = {
    ...vaultAddresses(program),
    program,
    program_data: programDataAddress(program),
    system_program: SYSTEM_PROGRAM,
    mint_record: mintRecordAddress(program, its_mint),
    vault_token: vaultTokenAddress(program, its_mint),
    token_program: is_2022 ? TOKEN_2022_PROGRAM : TOKEN_PROGRAM,
    rent: RENT,
    clock: CLOCK,
    ...announcementOf(program, fields),
  }
  const loads = equalBytes(instruction.program, UPGRADEABLE_LOADER)
  const requireSame = (what: string, found: string, wanted: Uint8Array | undefined): void => {
    if (wanted === undefined || found !== encodeBase58(wanted))
      throw new Refused(`${what} is ${found}, which is not that of --program ${encodeBase58(program)}`)
  }
  requireSame('the program', encodeBase58(instruction.program), loads ? UPGRADEABLE_LOADER : program)
  for (const { name, address } of accounts)
    if (!CHOSEN.includes(name)) requireSame(`account ${name}`, encodeBase58(address), derived[name])
  const { genesis_hash: cluster } = fields
  if (cluster !== undefined) requireSame('the cluster of the vault', cluster, genesis_hash)
}

/** The record of the topic that an `announce` names. */
function announcementOf(
  program: Uint8Array,
  { list, id }: Record<string, string>,
): Record<string, Uint8Array> {
  const bytes = id === undefined ? undefined : fromHex(id, 32)
  if (list === undefined || bytes === undefined) return {}
  return { announcement: announcementAddress(program, { list: list as AnnouncedList, id: bytes }) }
}

function formsOf(program: Uint8Array, data: Uint8Array): [string, InstructionForm][] {
  if (equalBytes(program, UPGRADEABLE_LOADER)) return Object.entries(LOADER_FORMS)
  const name = instructionName(data)
  return name === undefined ? [] : [[name, INSTRUCTION_FORMS[name]]]
}

/** Measurements are known by their hex. */
const hexOf = (value: unknown): string => (value instanceof Uint8Array ? toHex(value) : String(value))
const textOf = (value: unknown): string => (value instanceof Uint8Array ? encodeBase58(value) : String(value))

/**
 * Writes and reads files of unsigned transactions. A key signs one that lives on a durable nonce, so it may take as long as
 * it needs; a multisig's address signs by proposal, whose instructions do not expire.
 */

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

function fileTextOf(draft: Draft): string {
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
  writeFileSync(path, fileTextOf(draft), { flag: 'wx', mode: 0o600 })
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
    if (fileTextOf(draft) === text) return draft
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
