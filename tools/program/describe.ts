/** Describes an operator's instruction from its bytes alone, so a signer reads what it signs and not what a file claims. */
import { Refused } from '../../client/verify/transcript'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
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
import type { Draft } from './unsigned'

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
