/** Measures compute units and transaction bytes of every vault instruction in the SVM, as rows of a Markdown table. */
import { noteInner } from '../../../protocol/notes/notes'
import { TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import {
  authorizeRestoreInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  rotateSignerInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { depositInstruction } from '../../../protocol/vault/deposit'
import { anchorInstruction } from '../../../protocol/vault/epochs'
import {
  escapeInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { SettleFields } from '../../../protocol/vault/settle'
import { ExitNote } from '../../kit/vault/exit_note'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  elements,
  landed,
  OpenVault,
  outputsOf,
} from '../../kit/vault/open_vault'
import { mintBytes } from '../../kit/vault/tokens'
import { testKey, VaultChain } from '../../kit/vault/vault_chain'

type Row = [name: string, units: bigint, bytes: number]

const payer = testKey('payer')
const rows: Row[] = []

function measure(name: string, chain: VaultChain, instruction: VaultInstruction, fee_payer = payer): void {
  const { units, bytes } = landed(chain.send(instruction, fee_payer))
  rows.push([name, units, bytes])
}

function opening(): void {
  const chain = new VaultChain()
  const { program } = chain
  const fields = {
    program,
    deployer: payer.key,
    program_data: chain.programData(),
    exit_delay_s: EXIT_DELAY_S,
  }
  const keys = { admin: testKey('admin').key, settlement_signer: testKey('signer').key }
  measure('initialize', chain, initializeInstruction({ ...fields, ...keys }))
  const vault = new OpenVault()
  const mint = bytes32('second mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const registration = { program, admin: keys.admin, payer: payer.key, mint, token_program: TOKEN_PROGRAM }
  measure(
    'register_mint',
    vault.chain,
    registerMintInstruction({ ...registration, min_deposit: 1n, min_exit: 1n }),
  )
  const { units, bytes } = landed(vault.openEpoch())
  rows.push(['open_epoch', units, bytes])
  const signer = { program, settlement_signer: vault.signer.key }
  const position = { epoch: 1, journal_seq: 9, journal_head: bytes32('head') }
  measure('anchor', vault.chain, anchorInstruction({ ...signer, ...position }), vault.signer)
}

function deposits(): void {
  const vault = new OpenVault()
  const inner = noteInner(vault.trader.key, element('blinding'))
  measure('deposit, first leaf', vault.chain, depositInstruction(vault.depositOf(5_000n, inner)))
  for (let count = 0; count < 6; count++) vault.deposit(5_000n, inner)
  measure('deposit, eighth leaf', vault.chain, depositInstruction(vault.depositOf(5_000n, inner)))
}

function settled(name: string, parts: (vault: OpenVault) => Partial<SettleFields>): void {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(500_000n, element('inner'))
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
    settled(`settle, ${payouts} withdrawals, paid`, (vault) => ({
      nullifiers: elements('n', payouts),
      payouts: Array.from({ length: payouts }, (_, index) => {
        vault.setToken(bytes32(`to ${index}`), { owner: vault.trader.key })
        return vault.withdrawal(1_000n, bytes32(`to ${index}`))
      }),
    }))
  settled('settle, 24 withdrawals, all refunded', (vault) => ({
    nullifiers: elements('n', 24),
    payouts: Array.from({ length: 24 }, (_, index) => vault.withdrawal(1_000n, bytes32(`no ${index}`))),
  }))
}

function exits(): void {
  const served = new ExitNote('deposit')
  const { vault } = served
  measure('request_exit', vault.chain, requestExitInstruction(served.requestOf(payer.key)))
  const payout = vault.withdrawal(served.opening.amount, served.destination, served.refund_inner)
  const exit = { nullifier: served.nullifier, bond_payer: payer.key }
  const event = vault.settle({ nullifiers: [served.nullifier], payouts: [{ ...payout, kind: 'exit', exit }] })
  rows.push(['settle, 1 exit', event.units, event.bytes])
  const spent = new ExitNote('deposit')
  landed(spent.vault.chain.send(requestExitInstruction(spent.requestOf(payer.key))))
  spent.vault.settle({ nullifiers: [spent.nullifier] })
  const { leaf, siblings } = spent.vault.spent.witness(spent.nullifier)
  const proof = { next_value: leaf.next_value, leaf_index: leaf.index, path: siblings }
  const refusal = { program: vault.program, refuser: payer.key, nullifier: spent.nullifier, ...proof }
  const cited_spent_root = spent.vault.spent.root()
  measure('refuse_exit', spent.vault.chain, refuseExitInstruction({ ...refusal, cited_spent_root }))
  escapes()
}

function escapes(): void {
  const note = new ExitNote('deposit')
  const { chain, program } = note.vault
  note.mingle()
  landed(chain.send(requestExitInstruction(note.requestOf(payer.key))))
  chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  const fields = { program, nullifier: note.nullifier, bond_payer: payer.key }
  measure('freeze', chain, freezeInstruction(fields))
  measure('escape', chain, escapeInstruction(note.escapeOf(payer.key)))
}

function admin(): void {
  const { chain, program, admin: key } = new OpenVault()
  const fields = { program, admin: key.key }
  measure(
    'rotate_signer, announce',
    chain,
    rotateSignerInstruction({ ...fields, action: 'announce', key: payer.key }),
  )
  measure(
    'set_admin, announce',
    chain,
    setAdminInstruction({ ...fields, action: 'announce', key: payer.key }),
  )
  measure('authorize_restore', chain, authorizeRestoreInstruction({ ...fields, action: 'announce' }))
  measure('pause', chain, pauseInstruction(fields))
  measure('unpause', chain, unpauseInstruction(fields))
}

/** `| instruction | compute units | transaction bytes |`, in the order of program/README.md. */
export function instructionUnits(): string[] {
  rows.length = 0
  opening()
  deposits()
  settlements()
  exits()
  admin()
  return rows.map(
    ([name, units, bytes]) => `| ${name} | ${units.toLocaleString('en')} | ${bytes.toLocaleString('en')} |`,
  )
}
