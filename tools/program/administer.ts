/** Runs the commands of deployer, admin and upgrade authority: sends with a key file, or writes the unsigned transaction. */
import { join } from 'node:path'
import { type Options, UsageFault } from '../../client/cli/command'
import { rpcOf } from '../../client/cli/config'
import { Refused } from '../../client/verify/transcript'
import { chainAddresses } from '../../engine/chain/client/chain_client'
import { readConfig, readGenesis, VaultAbsent } from '../../engine/chain/client/read_vault'
import type { RpcPool } from '../../engine/chain/client/rpc_pool'
import type { VaultConfig } from '../../engine/ports'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { programDataAddress, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import {
  ANNOUNCED_LISTS,
  type AnnouncedList,
  type AnnounceFields,
  announceInstruction,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  holdingAt,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  setAdminInstruction,
  unpauseInstruction,
  withoutSuccessor,
} from '../../protocol/vault/admin'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import {
  isElf,
  type Key,
  readAccounts,
  readCode,
  refusingV1,
  requireTestedCode,
  testedBinary,
  withRpc,
} from './deploy_program'
import { landTransaction } from './land_transaction'
import { decodeNonce, renounceUpgrades, setAuthority } from './loader'
import { type Draft, describe, writeDraft } from './unsigned'

export const TEXTS = [
  ...(['rpc', 'payer', 'authority', 'admin', 'program', 'elf', 'exit-delay', 'mint'] as const),
  ...(['token-program', 'min-deposit', 'min-exit', 'key', 'priority-fee', 'extra', 'new', 'buffer'] as const),
  ...(['unsigned', 'nonce', 'signed', 'with', 'list', 'id', 'value'] as const),
] as const
export const FLAGS = ['execute'] as const
export type ProgramOptions = Options<(typeof TEXTS)[number], (typeof FLAGS)[number]>

export const ELF = join(import.meta.dir, '../../program/vault.so')

export const rpcUrls = (options: ProgramOptions): string[] =>
  rpcOf(options.text('rpc', process.env['SOLANA_RPC_URL'])).split(',')

/** A key file, or with `--unsigned` the address of a key that this command never sees. */
export function keyOf(options: ProgramOptions, name: 'admin' | 'authority' | 'payer' | 'program'): Key {
  if (options.optional('unsigned') !== undefined) return { address: options.address(name) }
  const seed = options.seed(name)
  return { address: publicKeyOf(seed), seed }
}

type Admin = { program: Uint8Array; admin: Uint8Array; payer: Uint8Array }
/** The instructions that the admin alone signs. */
const BY_ADMIN: Readonly<Record<string, (fields: Admin, options: ProgramOptions) => VaultInstruction>> = {
  pause: pauseInstruction,
  unpause: unpauseInstruction,
  'declare-outage': (fields, options) =>
    declareOutageInstruction({ ...fields, extra_s: Number(options.amount('extra')) }),
  'announce-restore': (fields) => authorizeRestoreInstruction({ ...fields, action: 'announce' }),
  'cancel-restore': (fields) => authorizeRestoreInstruction({ ...fields, action: 'cancel' }),
  'announce-admin': (fields, options) =>
    setAdminInstruction({ ...fields, action: 'announce', key: options.address('key') }),
  'apply-admin': (fields) => setAdminInstruction({ ...fields, action: 'apply' }),
  announce: (fields, options) => announcing(fields, options, 'announce'),
  raise: (fields, options) => announcing(fields, options, 'raise'),
  revoke: (fields, options) => announcing(fields, options, 'revoke'),
  'cancel-announcement': (fields, options) => announcing(fields, options, 'cancel'),
  'cancel-admin': (fields) => setAdminInstruction({ ...fields, action: 'cancel' }),
}

/** Those of the upgrade authority. */
const BY_AUTHORITY: readonly string[] = ['initialize', 'set-authority', 'renounce']

/** @throws UsageFault for an unknown list, and for an id or value that is not hex of its list's width */
function announcing(
  fields: Admin,
  options: ProgramOptions,
  action: AnnounceFields['action'],
): VaultInstruction {
  const list = options.text('list')
  if (!Object.hasOwn(ANNOUNCED_LISTS, list))
    throw new UsageFault(`--list is one of ${Object.keys(ANNOUNCED_LISTS).join(', ')}`)
  const widths = ANNOUNCED_LISTS[list as AnnouncedList]
  const hexOf = (name: 'id' | 'value', width: number): Uint8Array => {
    const given = width === 0 ? options.optional(name) : options.text(name)
    if (given === undefined) return new Uint8Array()
    const bytes = width === 0 ? undefined : fromHex(given, width)
    if (bytes === undefined) throw new UsageFault(`--${name} of ${list} is ${width} bytes of lowercase hex`)
    return bytes
  }
  const topic = { ...fields, list: list as AnnouncedList, id: hexOf('id', widths.id) }
  if (action === 'announce' || action === 'raise')
    return announceInstruction({ ...topic, action, value: hexOf('value', widths.value) })
  return announceInstruction({ ...topic, action })
}

type Action = {
  instruction: VaultInstruction
  /** Fee payer and signer; often one key. */
  keys: [Key, Key]
}

async function actionOf(rpc: RpcPool, command: string, options: ProgramOptions): Promise<Action> {
  const program = options.address('program')
  const payers = options.optional('payer') === undefined ? [] : [keyOf(options, 'payer')]
  const by = (signer: Key, instruction: VaultInstruction): Action => {
    return { instruction, keys: [payers[0] ?? signer, signer] }
  }
  if (BY_AUTHORITY.includes(command)) {
    const authority = keyOf(options, 'authority')
    const [deployer, program_data] = [authority.address, programDataAddress(program)]
    if (command === 'renounce') return by(authority, renounceUpgrades(program_data, deployer))
    if (command === 'set-authority')
      return by(authority, setAuthority(program_data, deployer, options.address('new')))
    const admin = options.address('admin')
    const exit_delay_s = Number(options.amount('exit-delay', '604800'))
    const genesis_hash = await readGenesis(rpc)
    const fields = { program, program_data, deployer, exit_delay_s, genesis_hash, admin }
    return by(authority, initializeInstruction(fields))
  }
  const make = BY_ADMIN[command]
  const key = keyOf(options, 'admin')
  const admin = key.address
  const payer = payers[0]?.address ?? admin
  if (make !== undefined) return by(key, make({ program, admin, payer }, options))
  const bounds = { min_deposit: options.amount('min-deposit'), min_exit: options.amount('min-exit') }
  const token_program = tokenProgram(options.text('token-program', 'spl'))
  const fields = { program, admin, payer, mint: options.address('mint'), token_program, ...bounds }
  return by(key, registerMintInstruction(fields))
}

function tokenProgram(name: string): Uint8Array {
  if (name === 'spl') return TOKEN_PROGRAM
  if (name === 'token-2022') return TOKEN_2022_PROGRAM
  throw new UsageFault('--token-program is spl or token-2022')
}

/** Prints instruction and signers; sends only with `--execute`, writes only with `--unsigned`. */
export async function administer(command: string, options: ProgramOptions): Promise<void> {
  const is_known = Object.hasOwn(BY_ADMIN, command) || BY_AUTHORITY.includes(command)
  if (!is_known && command !== 'register-mint') throw new UsageFault(`there is no command '${command}'`)
  const unsigned = options.optional('unsigned') !== undefined
  if (unsigned ? options.optional('priority-fee') : options.optional('nonce'))
    throw new UsageFault('--nonce belongs to --unsigned, --priority-fee does not')
  await withRpc(rpcUrls(options), async (rpc) => {
    const { instruction, keys } = await actionOf(rpc, command, options)
    printInstruction(instruction)
    await checkFirst(rpc, instruction, keys[0].address, options)
    if (unsigned) return writeUnsigned(rpc, instruction, keys[0].address, options)
    if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
    requireConfirmation(instruction)
    const seeds = [keys[0].seed!, keys[1].seed!] as const
    const priority_fee_lamports = options.amount('priority-fee', '0')
    const terms = { seeds, instructions: [instruction], priority_fee_lamports }
    console.log(`landed: ${await landTransaction(rpc, terms)}`)
    await show(rpc, options.address('program'), options)
  })
}

export function printInstruction(instruction: VaultInstruction): void {
  const { name, means, fields, accounts } = describe(instruction)
  const named = accounts.map(({ name: account, address, signer, writable }) => {
    return `${account} ${encodeBase58(address)}${signer ? ' signs' : ''}${writable ? ' writable' : ''}`
  })
  const program = encodeBase58(instruction.program)
  console.log(JSON.stringify({ instruction: name, means, program, fields, accounts: named }, null, 2))
}

/** Checks the preconditions before the instruction is signed. @throws Refused, Error, ChainUnavailable */
export async function checkFirst(
  rpc: RpcPool,
  instruction: VaultInstruction,
  payer: Uint8Array,
  options: ProgramOptions,
): Promise<void> {
  const { name, accounts } = describe(instruction)
  // The code that stays for good, or that is about to run.
  const holder = { renounce: 'program_data', upgrade: 'buffer' }[name]
  const code = accounts.find((account) => account.name === holder)
  if (code !== undefined) {
    await requireTestedCode(rpc, code.address, options.text('elf', ELF))
    console.log('the code on chain is the tested binary')
  }
  if (name === 'initialize') warnOfV1(await refusingV1(rpc, payer))
}

export function warnOfV1(refusing: readonly string[]): void {
  if (refusing.length > 0) console.log(`take no v1 transactions: ${refusing.join(', ')}`)
}

/** Demands that an irreversible action be typed again on the terminal. @throws Refused */
export function requireConfirmation(instruction: VaultInstruction): void {
  const { name, means, accounts } = describe(instruction)
  const wanted = { renounce: 'program_data', set_authority: 'new_authority' }[name]
  const final = accounts.find((account) => account.name === wanted)
  if (final === undefined) return
  const address = encodeBase58(final.address)
  console.log(`${means}. To go on, type ${final.name} ${address}:`)
  if (prompt('>')?.trim() !== address) throw new Refused('not confirmed: nothing was sent')
}

/** Writes the file for other signers. @throws UsageFault, Refused, ChainUnavailable */
export async function writeUnsigned(
  rpc: RpcPool,
  instruction: VaultInstruction,
  fee_payer: Uint8Array,
  options: ProgramOptions,
): Promise<void> {
  const path = options.text('unsigned')
  const draft: Draft = { genesis_hash: await readGenesis(rpc), fee_payer, instruction }
  if (options.optional('nonce') !== undefined) {
    const account = options.address('nonce')
    const held = decodeNonce((await readAccounts(rpc, [account], 'finalized'))[0])
    if (held === undefined) throw new Refused('--nonce names no nonce account')
    draft.nonce = { account, authority: held.authority, value: held.nonce }
  }
  writeDraft(path, draft)
  console.log(`written: ${path}`)
}

/** Prints roles, state and code of a vault. @throws Refused, ChainUnavailable */
export async function show(rpc: RpcPool, program: Uint8Array, options: ProgramOptions): Promise<void> {
  const binary = testedBinary(options.text('elf', ELF))
  const codeAt = async (account: Uint8Array) => {
    const code = await readCode(rpc, account, 'finalized')
    const authority = code?.authority ? encodeBase58(code.authority) : null
    return { authority, code_is_tested: code !== undefined && isElf(code, binary) }
  }
  const vault = await readConfig({ rpc, ...chainAddresses(program) }).catch((error: unknown) => {
    if (!(error instanceof VaultAbsent)) throw error
  })
  const facts = {
    program: encodeBase58(program),
    ...(await codeAt(programDataAddress(program))),
    ...(options.optional('buffer') && { buffer: await codeAt(options.address('buffer')) }),
    vault: vault ? vaultFacts(vault) : null,
  }
  console.log(JSON.stringify(facts, null, 2))
}

function vaultFacts({ admin, settlement_signer, ...rest }: VaultConfig) {
  const { epoch, generation, paused, frozen, exit_delay_s, pending } = rest
  const now_s = Math.floor(Date.now() / 1000)
  const keys = { admin: encodeBase58(admin), settlement_signer: encodeBase58(settlement_signer) }
  const announced = rest.announced.map((one) => {
    const { list, id, next } = one
    const value = holdingAt(one, now_s)
    const later = next !== undefined &&
      next.from_s > now_s && { next: toHex(next.value), from_s: next.from_s }
    return { list, id: toHex(id), value: value && toHex(value), ...later }
  })
  const without_successor = withoutSuccessor(rest.announced, now_s)
  const state = { epoch, generation, paused, frozen, exit_delay_s }
  return { ...keys, ...state, pending, announced, without_successor }
}
