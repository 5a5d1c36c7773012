/** Mints and token accounts as the judge knows them: forms, extensions, and the effect of a transfer. */
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { mintRecordAddress, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../../protocol/vault/addresses'
import type { RawAccount } from '../raw_chain'
import {
  type Call,
  must,
  mustBeWritable,
  ownAccount,
  type Placed,
  same,
  setU64,
  u16At,
  u64At,
  wordAt,
} from './call'

const TOKEN_BYTES = 165
const MULTISIG_BYTES = 355
const HOLDER = { mint: 1, account: 2 } as const

export const MINT_RECORD = {
  mint: 8,
  token_program: 40,
  vault_token: 72,
  min_deposit: 104,
  min_exit: 112,
  liabilities: 120,
  queued: 128,
  /** 16 bytes. */
  window_total: 136,
  window_base: 152,
  window_owed: 160,
  window_fixed_at_s: 168,
}

/** The record of the mint whose address is `mint`. */
export function mintRecordOf(call: Call, account: Placed, mint: Uint8Array): Uint8Array {
  const address = mintRecordAddress(call.vault.program, mint)
  const record = ownAccount(call, account, address, 4, ACCOUNT_BYTES.mint_record)
  must(same(wordAt(record, MINT_RECORD.mint), mint), 'the record of another mint')
  return record
}

export const isTokenProgram = (address: Uint8Array): boolean =>
  same(address, TOKEN_PROGRAM) || same(address, TOKEN_2022_PROGRAM)

function hasForm(account: RawAccount, base: number, holder: number): boolean {
  const { owner, data } = account
  if (data.length === base) return true
  if (!same(owner, TOKEN_2022_PROGRAM)) return false
  return data.length > TOKEN_BYTES && data.length !== MULTISIG_BYTES && data[TOKEN_BYTES] === holder
}

type Entry = { type: number; value: Uint8Array }

/** Undefined for a list that is not well formed. */
function extensionsOf(data: Uint8Array): Entry[] | undefined {
  const entries: Entry[] = []
  for (let at = TOKEN_BYTES + 1; at + 4 <= data.length; ) {
    const [type, size] = [u16At(data, at), u16At(data, at + 2)]
    if (type === 0) break
    if (at + 4 + size > data.length) return undefined
    entries.push({ type, value: data.slice(at + 4, at + 4 + size) })
    at += 4 + size
  }
  return entries
}

const MINT_MAY_HAVE = new Set([4, 10, 18, 19, 20, 21, 22, 23, 25])
const accountMayHave = ({ type, value }: Entry): boolean =>
  type === 7 || type === 11 || (type === 8 && value.length === 1 && value[0] === 0)

export function mustBeMint(account: RawAccount, token_program: Uint8Array): void {
  must(same(account.owner, token_program), 'the mint of another program')
  must(hasForm(account, 82, HOLDER.mint), 'no mint')
  must(account.data[45] === 1, 'an uninitialized mint')
  const extensions = extensionsOf(account.data)
  must(extensions?.every(({ type }) => MINT_MAY_HAVE.has(type)) === true, 'a dangerous mint')
}

export const tokensIn = ({ data }: RawAccount): bigint => u64At(data, 64)

const isTokenAccount = (account: RawAccount, token_program: Uint8Array): boolean =>
  same(account.owner, token_program) && hasForm(account, TOKEN_BYTES, HOLDER.account)

/** Number of the outcome of a payout, in the order of `PAYOUT_OUTCOMES`. */
export function payoutOutcome(
  destination: Placed,
  vault: Placed,
  mint: Uint8Array,
  token_program: Uint8Array,
): number {
  const { state } = destination
  if (!isTokenAccount(state, token_program)) return 1
  if (!same(wordAt(state.data, 0), mint)) return 2
  if (state.data[108] === 2) return 4
  if (state.data[108] !== 1) return 3
  if (same(destination.address, vault.address)) return 5
  if (state.data.length > 1_024) return 8
  if (extensionsOf(state.data)?.every(accountMayHave) !== true) return 6
  return vault.state.data[108] === 1 ? 0 : 7
}

export function mustBeVaultToken(account: Placed, record: Uint8Array, token_program: Placed): void {
  must(same(token_program.address, wordAt(record, MINT_RECORD.token_program)), 'another token program')
  must(same(account.address, wordAt(record, MINT_RECORD.vault_token)), 'another vault token account')
  mustBeWritable(account)
  must(isTokenAccount(account.state, token_program.address), 'the vault token account is none')
}

/** The vault's balance of a mint covers its notes and queued payouts. */
export function mustBeSolvent(record: Uint8Array, vault: Placed): void {
  const owed = u64At(record, MINT_RECORD.liabilities) + u64At(record, MINT_RECORD.queued)
  must(tokensIn(vault.state) >= owed, 'the vault owes more than it has')
}

/** Adds to a sum of a mint record, or takes from it. */
export function addTo(record: Uint8Array, at: number, amount: bigint): void {
  setU64(record, at, u64At(record, at) + amount)
}

/** Moves tokens as the token program does, under its rules that concern the vault. */
export function moveTokens(from: Placed, to: Placed, mint: Uint8Array, amount: bigint): void {
  mustBeWritable(from)
  mustBeWritable(to)
  const initialized = from.state.data[108] === 1 && to.state.data[108] === 1
  must(initialized && same(from.state.owner, to.state.owner), 'no transfer between these accounts')
  must(same(wordAt(from.state.data, 0), mint) && same(wordAt(to.state.data, 0), mint), 'another mint')
  must(tokensIn(from.state) >= amount, 'too few tokens')
  setU64(from.state.data, 64, tokensIn(from.state) - amount)
  setU64(to.state.data, 64, tokensIn(to.state) + amount)
}

/** The depositor owns the source, or is its delegate for enough. */
export function mustHold(depositor: Placed, source: RawAccount, amount: bigint): void {
  const { data } = source
  if (same(wordAt(data, 32), depositor.address)) return
  const delegated = data[72] === 1 && same(wordAt(data, 76), depositor.address)
  must(delegated && u64At(data, 121) >= amount, 'the tokens of somebody else')
  setU64(data, 121, u64At(data, 121) - amount)
  if (u64At(data, 121) === 0n) data.fill(0, 72, 108)
}
