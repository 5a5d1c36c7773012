/** Measures compute units and transaction bytes of every vault instruction in the SVM, as rows of a Markdown table. */
import { compareBytes } from '../../../protocol/bytes'
import { noteInner } from '../../../protocol/notes/notes'
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
import { depositInstruction } from '../../../protocol/vault/deposit'
import { anchorInstruction } from '../../../protocol/vault/epochs'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { growQueueInstruction, type SettleFields } from '../../../protocol/vault/settle'
import { AttestedVault } from '../../kit/vault/attested_vault'
import { developmentChain, ROOT } from '../../kit/vault/development_chain'
import { ExitNote } from '../../kit/vault/exit_note'
import {
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
import { mintBytes } from '../../kit/vault/tokens'
import { testKey, VaultChain } from '../../kit/vault/vault_chain'
import { WindDown } from '../../kit/vault/wind_down'

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
  measure('initialize', chain, initializeInstruction(initializationOf(chain)))
  const vault = new OpenVault()
  const mint = bytes32('second mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const registration = {
    program,
    admin: vault.admin.key,
    payer: payer.key,
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
  measure('grow_queue', chain, growQueueInstruction(program, payer.key))
}

function exits(): void {
  const served = new ExitNote('deposit')
  const { vault, nullifier } = served
  measure('request_exit', vault.chain, requestExitInstruction(served.requestOf(payer.key)))
  const event = vault.settle({ nullifiers: [nullifier], payouts: [served.payout()] })
  rows.push(['settle, 1 exit', event.units, event.bytes])
  const closing = { program: vault.program, nullifier, bond_payer: payer.key }
  measure('close_exit', vault.chain, closeExitInstruction(closing))
  const spent = new ExitNote('deposit')
  landed(spent.vault.chain.send(requestExitInstruction(spent.requestOf(payer.key))))
  spent.vault.settle({ nullifiers: [...elements('n', 55), spent.nullifier].sort(compareBytes) })
  measure('refuse_exit, 56 nullifiers', spent.vault.chain, refuseExitInstruction(spent.refusalOf(payer.key)))
  const late = new ExitNote('deposit')
  landed(late.vault.chain.send(requestExitInstruction(late.requestOf(payer.key))))
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
  const challenge = { ...down.challengeOf(spent), challenger: payer.key }
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
    setAdminInstruction({ ...fields, action: 'announce', key: payer.key }),
  )
  measure('authorize_restore', chain, authorizeRestoreInstruction({ ...fields, action: 'announce' }))
  measure('pause', chain, pauseInstruction(fields))
  measure('unpause', chain, unpauseInstruction(fields))
  measure('declare_outage', chain, declareOutageInstruction({ ...fields, extra_s: EXIT_DELAY_S }))
  const topic = { ...fields, payer: payer.key, list: 'build', id: bytes32('compose') } as const
  measure('announce, new record', chain, announceInstruction({ ...topic, action: 'announce' }))
  measure('announce, revoke', chain, announceInstruction({ ...topic, action: 'revoke' }))
  const root = { list: 'attestation_root', action: 'announce', value: ROOT.compressed } as const
  landed(chain.send(announceInstruction({ ...fields, payer: payer.key, ...root })))
  const platform = { ...developmentChain(), program, payer: payer.key }
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
