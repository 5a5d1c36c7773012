/** Describes an operator's instruction from its bytes alone, so a signer reads what it signs and not what a file claims. */
import { Refused } from '../../client/verify/transcript'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { UPGRADEABLE_LOADER } from '../../protocol/vault/addresses'
import {
  type InstructionForm,
  instructionName,
  type VaultInstruction,
} from '../../protocol/vault/instruction'
import { INSTRUCTION_FORMS } from '../../protocol/vault/instruction_forms'
import { LOADER_FORMS } from './loader'

/** The effect of each instruction by its name, with its action where it has one. */
const MEANS: Readonly<Record<string, string>> = {
  initialize: 'the vault opens with this admin and settlement signer',
  register_mint: 'the vault takes this mint; its bounds are final',
  'rotate_signer announce': 'after twice the exit delay another key may settle',
  'rotate_signer apply': 'the announced key settles',
  'rotate_signer cancel': 'the announced signer is void',
  'set_admin announce': 'after twice the exit delay the key may take the admin role',
  'set_admin apply': 'the announced key, which signs this, is the admin',
  'set_admin cancel': 'the announced admin is void',
  'authorize_restore announce': 'after a quarter of the exit delay a venue may begin from the chain',
  'authorize_restore cancel': 'the announced restore is void',
  pause: 'deposits and settlement stop at once, exits never',
  unpause: 'deposits and settlement go on',
  declare_outage:
    'open exit requests get this much more time; not again for 90 days or until that time is over',
  upgrade: 'the code in the buffer replaces the code of the program',
  set_authority: 'only the new authority may upgrade the program or buffer; a wrong address is final',
  renounce: 'the program can never change again; this is final',
}

type Described = {
  name: string
  means: string
  /** Fields of the data, addresses and hashes in base58. */
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
      fields: Object.fromEntries(fields.map(([field, one]) => [field, textOf(one)])),
      accounts: accounts.map((account, at) => ({ name: names[at]![0], ...account })),
    }
  }
  throw new Refused('an instruction is none that an operator sends')
}

function formsOf(program: Uint8Array, data: Uint8Array): [string, InstructionForm][] {
  if (equalBytes(program, UPGRADEABLE_LOADER)) return Object.entries(LOADER_FORMS)
  const name = instructionName(data)
  return name === undefined ? [] : [[name, INSTRUCTION_FORMS[name]]]
}

const textOf = (value: unknown): string => (value instanceof Uint8Array ? encodeBase58(value) : String(value))
