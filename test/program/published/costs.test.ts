/** The tables of program/README.md equal the costs of the tested program. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Blockhash, createKeyPairSignerFromPrivateKeyBytes, getTransactionDecoder } from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import { buildTransaction, toInstruction } from '../../../engine/chain/client/build_transaction'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { compareBytes, utf8 } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'
import { TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import {
  announceInstruction,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import {
  anchorInstruction,
  platformAddress,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  depositInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import {
  growQueueInstruction,
  type PayoutFields,
  type SettleFields,
  settleInstruction,
} from '../../../protocol/vault/settle'
import { developmentChain, PCK, PlatformKey, ROOT } from '../../kit/vault/development_chain'
import {
  AttestedVault,
  bytes32,
  EXIT_DELAY_S,
  element,
  elements,
  initializationOf,
  landed,
  OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'
import { type Changes, developmentEvidence, event } from '../../kit/vault/quoting_machine'
import { mintBytes, testKey, VaultChain } from '../../kit/vault/vault_chain'
import { ExitNote, WindDown } from '../../kit/vault/wind_down'

/** `parts`: capacity that one takes of a batch; `batch_parts`: fixed capacity of the batch for its mint's accounts. */
type Shape = {
  name: string
  parts: number
  batch_parts: number
  batchOf: (vault: OpenVault, count: number) => SettleFields
}

/** An open vault with an epoch and a third party's deposit. */
function readyVault(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000_000n, element('somebody'))
  return vault
}

/** An order spends a note and makes its proceeds, and its change unless it was filled to the last unit. */
const orders =
  (outputs: number): Shape['batchOf'] =>
  (vault, count) =>
    vault.batchOf({ nullifiers: elements('n', count), outputs: outputsOf(elements('c', outputs * count)) })

const withdrawals: Shape['batchOf'] = (vault, count) => {
  const payouts = Array.from({ length: count }, (_, at) => {
    vault.setToken(bytes32(`to ${at}`), { owner: vault.trader.key })
    return vault.withdrawal(1_000n, bytes32(`to ${at}`))
  })
  return vault.batchOf({
    nullifiers: elements('n', count),
    outputs: outputsOf(elements('c', count)),
    payouts,
  })
}

/** Notes of one owner are deposited and demanded back, each to its own destination. */
const servedExits: Shape['batchOf'] = (vault, count) => {
  const { chain, program, mint, trader } = vault
  const amount = 2_000n
  const notes = Array.from({ length: count }, (_, at) => {
    const blinding = element(`blinding ${at}`)
    const inner = noteInner(trader.key, blinding)
    const leaf_index = vault.deposit(amount, inner)
    const nullifier = nullifierOf(depositCommitment({ mint, amount, inner, leaf_index }), blinding)
    return { blinding, leaf_index, nullifier, destination: bytes32(`exit to ${at}`) }
  })
  const refund_inner = element('refund')
  const payouts = notes.map(({ blinding, leaf_index, nullifier, destination }): PayoutFields => {
    const { leaf_count, root } = chain.tree()
    const opening = { form: 'deposit' as const, amount, blinding, leaf_index }
    const cited = { cited_leaf_count: leaf_count, cited_root: root, path: vault.tree.siblings(leaf_index) }
    const asked = {
      owner: trader.key,
      payer: chain.payer.key,
      mint,
      opening,
      nullifier,
      destination,
      refund_inner,
    }
    landed(chain.send(requestExitInstruction({ program, ...asked, ...cited })))
    vault.setToken(destination, { owner: trader.key })
    return { ...vault.withdrawal(amount, destination, refund_inner), nullifier }
  })
  const nullifiers = notes.map(({ nullifier }) => nullifier).sort(compareBytes)
  return vault.batchOf({ nullifiers, payouts })
}

const SHAPES: readonly Shape[] = [
  { name: 'order with change (2 outputs)', parts: 1, batch_parts: 0, batchOf: orders(2) },
  { name: 'order filled to the last unit (1 output)', parts: 1, batch_parts: 0, batchOf: orders(1) },
  { name: 'withdrawal with change', parts: 2, batch_parts: 1, batchOf: withdrawals },
  { name: 'exit served', parts: 2, batch_parts: 1, batchOf: servedExits },
]

type Cost = { name: string; bytes: number; units: bigint; lamports: bigint; rent: bigint }

/** Lamports that the fee payer, who pays nothing else, has less. */
function paid(own: AttestedVault, name: string, rent: bigint, send: () => ReturnType<AttestedVault['open']>) {
  const balance = (): bigint => own.chain.account(own.chain.payer.key)!.lamports
  const before = balance()
  const { bytes, units } = landed(send())
  return { name, bytes, units, lamports: before - balance() - rent, rent }
}

function opened(name: string, evidence = developmentEvidence(), changes: Changes = {}): Cost {
  const own = new AttestedVault(evidence)
  return paid(own, `open_attested_epoch, ${name}`, 0n, () => own.open(changes))
}

/** Registering a machine, and an opening for each form of quote. */
function attestedCosts(): Cost[] {
  const own = new AttestedVault()
  const { program } = own.vault
  const fields = {
    ...developmentChain({}, {}, new PlatformKey('priced')),
    program,
    payer: own.chain.payer.key,
  }
  // Every record of a platform has one size.
  const rent = own.chain.account(platformAddress(program, PCK.compressed))!.lamports
  return [
    paid(own, 'register_platform', rent, () => own.register(fields)),
    opened('version 4'),
    opened('version 5, TD 1.0', developmentEvidence(2)),
    opened('version 5, TD 1.5', developmentEvidence(3)),
    opened('an event more', developmentEvidence(), {
      log: (log) => [...log, event('application', new Uint8Array(32))],
    }),
  ]
}

const attestedRow = ({ name, bytes, units, lamports, rent }: Cost): string =>
  `| ${[name, ...[bytes, units, lamports, rent].map((one) => one.toLocaleString('en'))].join(' | ')} |`

/** The relayer's floor for a whole transaction. */
const PRIORITY_LAMPORTS = 1_000n
/** Order parts that a batch has room for. */
const PARTS = 28
const UNITS_ASKED = 1_400_000
/** The keys whose names the vault of the program's tests gives to its settlement signer and its fee payer. */
const [signer, payer] = await Promise.all(
  ['settlement 1', 'payer'].map((name) =>
    createKeyPairSignerFromPrivateKeyBytes(sha256(utf8(`vault test ${name}`))),
  ),
)

async function bytesOf(vault: OpenVault, batch: SettleFields): Promise<Uint8Array> {
  const lifetime = { blockhash: vault.chain.svm.latestBlockhash() as Blockhash, lastValidBlockHeight: 1n }
  const instructions = [toInstruction(settleInstruction(batch), [signer!])]
  const limits = { compute_units: UNITS_ASKED, priority_fee_lamports: PRIORITY_LAMPORTS }
  return (await buildTransaction({ payer: payer!, instructions, lifetime, ...limits })).wire
}

type SettlementCost = {
  name: string
  count: number
  bytes: number
  units: number
  /** The fee payer's charge: a base fee for each of its two signatures, and the priority fee. */
  lamports: number
}

async function costOf(shape: Shape, count: number): Promise<SettlementCost> {
  const vault = readyVault()
  const wire = await bytesOf(vault, shape.batchOf(vault, count))
  const balance = () => vault.chain.svm.getBalance(addressOf(vault.chain.payer.key))!
  const before = balance()
  const result = vault.chain.svm.sendTransaction(getTransactionDecoder().decode(wire))
  if (result instanceof FailedTransactionMetadata) throw new Error(`${shape.name}: ${result}`)
  const { name } = shape
  const lamports = Number(before - balance())
  return { name, count, bytes: wire.length, units: Number(result.computeUnitsConsumed()), lamports }
}

/** As full as the engine packs them and with one of a kind. */
async function settlementCosts(): Promise<SettlementCost[]> {
  const costs: SettlementCost[] = []
  for (const shape of SHAPES) {
    const full = Math.floor((PARTS - shape.batch_parts) / shape.parts)
    for (const count of [full, 1]) costs.push(await costOf(shape, count))
  }
  return costs
}

/** In the order of program/README.md. */
function rowOf({ name, count, bytes, units, lamports }: SettlementCost): string {
  const shown = (value: number): string => Math.ceil(value).toLocaleString('en')
  const each = [lamports, bytes, units].map((value) => shown(value / count))
  return `| ${[name, count, shown(bytes), shown(units), shown(lamports), ...each].join(' | ')} |`
}

const README = readFileSync(join(import.meta.dir, '../../../program/README.md'), 'utf8')

/** The rows below a heading's first table head. */
const published = (heading: string): string[] => {
  const [, section] = README.split(`\n## ${heading}\n`)
  return section!
    .split('\n## ')[0]!
    .match(/^\|.*\|$/gm)!
    .slice(2)
}

test('compute units and bytes of every instruction', () => {
  expect(instructionUnits()).toEqual(published('Compute units and bytes'))
}, 120_000)

test('costs of an attested epoch: one transaction on a registered platform, within a v1 transaction and a limit of units', () => {
  const costs = attestedCosts()
  expect(costs.map(attestedRow)).toEqual(published('What an attested epoch costs'))
  expect(Math.max(...costs.map(({ bytes }) => bytes))).toBeLessThanOrEqual(4_096)
  for (const { units } of costs) expect(units).toBeLessThan(250_000n)
}, 120_000)

test('costs of settling a full batch and a single part; an order of a full batch stays within its budget', async () => {
  const costs = await settlementCosts()
  expect(costs.map(rowOf)).toEqual(published('What a settled order costs'))
  const [full] = costs
  expect(full).toMatchObject({ count: 28, lamports: 11_000 })
  expect(full!.lamports / full!.count).toBeLessThanOrEqual(395)
  expect(full!.units / full!.count).toBeLessThanOrEqual(3_700)
  expect(Math.max(...costs.map(({ bytes }) => bytes))).toBeLessThanOrEqual(4_096)
}, 120_000)

type Row = [name: string, units: bigint, bytes: number]

const instructionPayer = testKey('payer')
const rows: Row[] = []

function measure(
  name: string,
  chain: VaultChain,
  instruction: VaultInstruction,
  fee_payer = instructionPayer,
): void {
  const { units, bytes } = landed(chain.send(instruction, fee_payer))
  rows.push([name, units, bytes])
}

function opening(): void {
  const chain = new VaultChain()
  const { program } = chain
  measure('initialize', chain, initializeInstruction(initializationOf(chain)))
  const vault = new OpenVault()
  const mint = bytes32('second mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const registration = {
    program,
    admin: vault.admin.key,
    payer: instructionPayer.key,
    mint,
    token_program: TOKEN_PROGRAM,
  }
  measure(
    'register_mint',
    vault.chain,
    registerMintInstruction({ ...registration, min_deposit: 1n, min_exit: 1n }),
  )
  landed(vault.openEpoch())
  const signer = { program, settlement_signer: vault.signer.key }
  const limits = { not_after_slot: 9_999, not_after_s: 1_900_000_000 }
  const position = { epoch: 1, journal_seq: 9, journal_head: bytes32('head'), ...limits }
  measure('anchor', vault.chain, anchorInstruction({ ...signer, ...position }), vault.signer)
}

function deposits(): void {
  const vault = runningVault(0n)
  const inner = noteInner(vault.trader.key, element('blinding'))
  measure('deposit, first leaf', vault.chain, depositInstruction(vault.depositOf(5_000n, inner)))
  for (let count = 0; count < 6; count++) vault.deposit(5_000n, inner)
  measure('deposit, eighth leaf', vault.chain, depositInstruction(vault.depositOf(5_000n, inner)))
}

function settled(name: string, parts: (vault: OpenVault) => Partial<SettleFields>): void {
  const vault = runningVault(500_000n)
  const { units, bytes } = vault.settle(parts(vault))
  rows.push([name, units, bytes])
}

function settlements(): void {
  for (const orders of [1, 6, 14, 28])
    settled(`settle, ${orders} orders`, () => ({
      nullifiers: elements('n', orders),
      outputs: outputsOf(elements('c', 2 * orders)),
    }))
  for (const payouts of [1, 8, 24])
    settled(`settle, ${payouts} withdrawals`, (vault) => ({
      nullifiers: elements('n', payouts),
      payouts: Array.from({ length: payouts }, (_, index) =>
        vault.withdrawal(1_000n, bytes32(`to ${index}`)),
      ),
    }))
}

function payments(): void {
  for (const entries of [1, 8])
    for (const outcome of ['paid', 'refunded']) {
      const vault = runningVault(500_000n)
      const payouts = Array.from({ length: entries }, (_, index) => {
        const to = bytes32(`to ${index}`)
        if (outcome === 'paid') vault.setToken(to, { owner: vault.trader.key })
        return vault.withdrawal(1_000n, to)
      })
      vault.settle({ payouts })
      measure(`pay, ${entries} ${outcome}`, vault.chain, vault.payment())
    }
  const { chain, program } = runningVault()
  measure('grow_queue', chain, growQueueInstruction(program, instructionPayer.key))
}

function exits(): void {
  const served = new ExitNote('deposit')
  const { vault, nullifier } = served
  measure('request_exit', vault.chain, requestExitInstruction(served.requestOf(instructionPayer.key)))
  const event = vault.settle({ nullifiers: [nullifier], payouts: [served.payout()] })
  rows.push(['settle, 1 exit', event.units, event.bytes])
  const closing = { program: vault.program, nullifier, bond_payer: instructionPayer.key }
  measure('close_exit', vault.chain, closeExitInstruction(closing))
  const spent = new ExitNote('deposit')
  landed(spent.vault.chain.send(requestExitInstruction(spent.requestOf(instructionPayer.key))))
  spent.vault.settle({ nullifiers: [...elements('n', 55), spent.nullifier].sort(compareBytes) })
  measure(
    'refuse_exit, 56 nullifiers',
    spent.vault.chain,
    refuseExitInstruction(spent.refusalOf(instructionPayer.key)),
  )
  const late = new ExitNote('deposit')
  landed(late.vault.chain.send(requestExitInstruction(late.requestOf(instructionPayer.key))))
  late.vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  measure('freeze', late.vault.chain, freezeInstruction(late.vault.program, late.nullifier))
}

function claims(): void {
  const down = new WindDown()
  const [note, stopper] = [down.deposit(5_000n), down.deposit(5_000n)]
  const spent = down.settle([1n])[0]!
  down.vault.settle({ nullifiers: [...elements('n', 55), spent.nullifier].sort(compareBytes) })
  down.freeze(stopper)
  measure('claim_escape', down.chain, claimEscapeInstruction(down.claimOf(note)))
  landed(down.claiming(spent))
  const challenge = { ...down.challengeOf(spent), challenger: instructionPayer.key }
  measure('challenge_escape, 56 nullifiers', down.chain, challengeEscapeInstruction(challenge))
  measure('redirect_escape', down.chain, down.redirection(note, note.destination))
  down.passTo(2)
  measure('pay_escape', down.chain, down.payment(note))
}

function admin(): void {
  const { chain, program, admin: key } = new OpenVault()
  const fields = { program, admin: key.key }
  measure(
    'set_admin, announce',
    chain,
    setAdminInstruction({ ...fields, action: 'announce', key: instructionPayer.key }),
  )
  measure('authorize_restore', chain, authorizeRestoreInstruction({ ...fields, action: 'announce' }))
  measure('pause', chain, pauseInstruction(fields))
  measure('unpause', chain, unpauseInstruction(fields))
  measure('declare_outage', chain, declareOutageInstruction({ ...fields, extra_s: EXIT_DELAY_S }))
  const topic = { ...fields, payer: instructionPayer.key, list: 'build', id: bytes32('compose') } as const
  measure('announce, new record', chain, announceInstruction({ ...topic, action: 'announce' }))
  measure('announce, revoke', chain, announceInstruction({ ...topic, action: 'revoke' }))
  const root = { list: 'attestation_root', action: 'announce', value: ROOT.compressed } as const
  landed(chain.send(announceInstruction({ ...fields, payer: instructionPayer.key, ...root })))
  const platform = { ...developmentChain(), program, payer: instructionPayer.key }
  const [verify, registration] = registerPlatformInstructions(platform)
  chain.before = [verify]
  measure('register_platform', chain, registration)
  const attested = landed(new AttestedVault().open())
  rows.push(['open_attested_epoch', attested.units, attested.bytes])
}

/** `| instruction | compute units | transaction bytes |`, in the order of program/README.md. */
export function instructionUnits(): string[] {
  rows.length = 0
  opening()
  deposits()
  settlements()
  payments()
  exits()
  claims()
  admin()
  return rows.map(
    ([name, units, bytes]) => `| ${name} | ${units.toLocaleString('en')} | ${bytes.toLocaleString('en')} |`,
  )
}
