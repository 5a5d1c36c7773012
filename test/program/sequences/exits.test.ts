/**
 * Every short sequence of events of one note, by the five instructions that load its request and by payments: no served owner
 * loses a bond, nothing is paid twice or without a request, an open request can always be served, refused or closed, and only
 * its note's batch or a freeze removes or changes it before it is served.
 */
import { expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import { decodeExitRequest, type ExitRequest } from '../../../protocol/vault/accounts'
import { exitRequestAddress, mintRecordAddress, SYSTEM_PROGRAM } from '../../../protocol/vault/addresses'
import {
  closeExitInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { settleInstruction } from '../../../protocol/vault/settle'
import { bytes32, EXIT_DELAY_S } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'
import { ExitNote } from '../../kit/vault/wind_down'

const LENGTH = 7
const bond_payer = testKey('bond payer')
const refuser = testKey('refuser')
const note = new ExitNote('deposit')
const { vault, nullifier } = note
const { chain, program } = vault
for (const key of [bond_payer, refuser]) chain.fund(key)
const elsewhere = bytes32('elsewhere')
vault.setToken(elsewhere, { owner: vault.trader.key })
const request_account = exitRequestAddress(program, nullifier)
const { config, tree, ring, queue } = chain.vault
const records = [config, tree, ring, queue, mintRecordAddress(program, vault.mint)]
const tokens = [vault.vault_token, note.destination, elsewhere]
const touched = [...records, ...tokens, request_account, bond_payer.key, refuser.key]
const REQUESTING = requestExitInstruction(note.requestOf(bond_payer.key))
const REQUESTING_ELSEWHERE = requestExitInstruction({
  ...note.requestOf(bond_payer.key),
  destination: elsewhere,
})
const log = new SpentLog()
log.append([spentLogLeaf(1, [nullifier])])
/** Only one batch is ever sent in a sequence, because an honest signer spends a note once. */
const REFUSAL = refuseExitInstruction({
  program,
  refuser: refuser.key,
  nullifier,
  cited_spent_root: log.root(),
  batch: 1,
  nullifiers: [nullifier],
  path: log.siblings(0),
})
const CLOSING = closeExitInstruction({ program, nullifier, bond_payer: bond_payer.key })
const FREEZING = freezeInstruction(program, nullifier)
const spend = (...destinations: Uint8Array[]) => {
  const payouts = destinations.map((destination) => ({ ...note.payout(), destination }))
  return settleInstruction(vault.batchOf({ nullifiers: [nullifier], payouts }))
}

/** Events so far, besides the accounts' content. `asked`: the bytes of the request, while it must be open. */
type History = { asked?: string | undefined; spent: boolean; served: boolean; paid: boolean; frozen: boolean }

const START: History = { spent: false, served: false, paid: false, frozen: false }

const request = (): ExitRequest | undefined => {
  const account = chain.account(request_account)
  return account && decodeExitRequest(account.data)
}

/** A possible act, and its effects where it lands; undefined where it cannot be built. */
function stepsOf(old: History): Record<string, [VaultInstruction, History] | undefined> {
  const spent = { ...old, asked: undefined, spent: true }
  const waiting = chain.queue().entries.length > 0
  return {
    request: [REQUESTING, { ...old, served: false }],
    'request elsewhere': [REQUESTING_ELSEWHERE, { ...old, served: false }],
    serve: old.spent ? undefined : [spend(note.destination), { ...spent, served: true }],
    'serve elsewhere': old.spent ? undefined : [spend(elsewhere), { ...spent, served: true }],
    'spend otherwise': old.spent ? undefined : [spend(), spent],
    refuse: [REFUSAL, old],
    close: [CLOSING, old],
    freeze: [FREEZING, { ...old, asked: undefined, frozen: true }],
    pay: waiting ? [vault.payment(), { ...old, paid: true }] : undefined,
  }
}

const setTime = (late: boolean): void => chain.setTime(2_000, 1_800_000_000 + (late ? 2 * EXIT_DELAY_S : 0))

const snapshot = () => touched.map((key) => ({ key, account: chain.svm.getAccount(addressOf(key)) }))

function restore(accounts: ReturnType<typeof snapshot>): void {
  for (const { key, account } of accounts)
    if (account.exists) chain.svm.setAccount(account)
    else chain.setAccount(key, new Uint8Array(), SYSTEM_PROGRAM, 0n)
}

const held = (key: Uint8Array): bigint => chain.account(key)?.lamports ?? 0n
const bonds = (): bigint =>
  [bond_payer.key, refuser.key, request_account].reduce((sum, key) => sum + held(key), 0n)
const ALL_BONDS = bonds()

/** Laws after every sequence. */
function judge(path: string, history: History): void {
  const same = (found: unknown, wanted: unknown) => expect([path, found]).toEqual([path, wanted])
  const { liabilities, queued } = chain.mintRecord(vault.mint)
  const received = vault.balance(note.destination) + vault.balance(elsewhere)
  same(received, history.paid ? note.opening.amount : 0n)
  same(vault.balance(vault.vault_token), liabilities + queued)
  same(bonds(), ALL_BONDS)
  same(chain.config().frozen, history.frozen)
  if (history.asked !== undefined) same(bytesOf(request_account), history.asked)
  const present = request()
  for (const to of history.spent || history.frozen ? [] : [note.destination, elsewhere]) {
    const asked = present !== undefined && equalBytes(present.destination, to)
    same(chain.outcome(spend(to), vault.signer), asked ? 'landed' : 'payout_mismatch')
  }
  if (present === undefined) return
  same(present.served, history.served)
  same(chain.outcome(CLOSING), history.served || history.frozen ? 'landed' : 'exit_open')
  if (history.spent) same(chain.outcome(REFUSAL), history.served ? 'exit_served' : 'landed')
}

const bytesOf = (key: Uint8Array): string => toHex(chain.account(key)?.data ?? new Uint8Array())

let states = 0

function explore(path: string[], history: History): void {
  states += 1
  judge(path.join(', '), history)
  if (path.length === LENGTH) return
  for (const [name, step] of Object.entries(stepsOf(history))) {
    if (step === undefined) continue
    const before = snapshot()
    setTime(history.frozen || name === 'freeze')
    const fee_payer = name.startsWith('s') ? vault.signer : chain.payer
    if (chain.send(step[0], fee_payer).ok) {
      const [, after] = step
      const asked = name.startsWith('request') && !after.spent ? bytesOf(request_account) : after.asked
      explore([...path, name], { ...after, asked })
    }
    restore(before)
    setTime(history.frozen)
  }
}

test('every sequence of requests, batches, refusals, closings, freezes and payments', () => {
  setTime(false)
  explore([], START)
  expect(states).toBeGreaterThan(250)
}, 120_000)
