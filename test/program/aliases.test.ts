/** Every account list against itself, every feature of a cluster, and random data: the program fails by its own errors alone. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { FeatureSet } from 'litesvm'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import {
  announceInstruction,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../protocol/vault/admin'
import { anchorInstruction, registerPlatformInstructions } from '../../protocol/vault/epochs'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  depositInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import { INSTRUCTION, type InstructionName, type VaultInstruction } from '../../protocol/vault/instruction'
import { growQueueInstruction, settleInstruction } from '../../protocol/vault/settle'
import { developmentChain, ROOT } from '../kit/vault/development_chain'
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
} from '../kit/vault/open_vault'
import { mintBytes, testKey, VaultChain } from '../kit/vault/vault_chain'
import { ExitNote, type OwnedNote, WindDown } from '../kit/vault/wind_down'

/**
 * Every account list against itself: each place is filled with the account of each other place and with a stranger, and loses
 * its signature and its writability. Transactions that still land are listed here by name; no other may.
 */

const payer = testKey('payer')

/** Transactions that land although a place changed: `place<-other`, `place unsigned`, `place read only`. */
function survivors(chain: VaultChain, good: VaultInstruction): string[] {
  expect(chain.outcome(good)).toBe('landed')
  const stranger = { address: bytes32('stranger'), signer: false, writable: false }
  const lands = (place: number, change: object): boolean => {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, ...change } : one))
    return chain.outcome({ ...good, accounts }) === 'landed'
  }
  return good.accounts.flatMap((account, place) => {
    const [own, isPayer] = [toHex(account.address), toHex(account.address) === toHex(payer.key)]
    const found = [...good.accounts, stranger].flatMap((other, from) => {
      if (toHex(other.address) === own) return []
      const signer = account.signer && other.signer
      // An invoked program is never writable; the runtime would demote it.
      const writable = account.writable && toHex(other.address) !== toHex(good.program)
      return lands(place, { address: other.address, signer, writable }) ? [`${place}<-${from}`] : []
    })
    // The fee payer always signs and is always writable.
    if (!isPayer && account.signer && lands(place, { signer: false })) found.push(`${place} unsigned`)
    if (!isPayer && account.writable && lands(place, { writable: false })) found.push(`${place} read only`)
    return found
  })
}

const other_payer = testKey('other payer')

/** A requested exit, its bond paid by a key that pays no fees. */
function requested(): ExitNote {
  const note = new ExitNote('deposit')
  note.vault.chain.fund(other_payer)
  landed(note.vault.chain.send(requestExitInstruction(note.requestOf(other_payer.key))))
  return note
}

/** A claim in a frozen vault, of a note that is spent or not, when it can be paid. */
function claimed(spent: boolean): [WindDown, OwnedNote] {
  const down = new WindDown()
  const note = down.deposit(5_000n)
  const stopper = down.deposit(5_000n)
  if (spent) down.settle([], [note])
  down.freeze(stopper)
  landed(down.claiming(note))
  down.passTo(2)
  return [down, note]
}

const admin = (act: (fields: { program: Uint8Array; admin: Uint8Array }) => VaultInstruction) => () => {
  const vault = new OpenVault()
  return [vault.chain, act({ program: vault.program, admin: vault.admin.key })] as const
}

type Case = [survivors: string[], world: () => readonly [VaultChain, VaultInstruction]]

const CASES: { [name in Exclude<InstructionName, 'emit'>]: Case } = {
  initialize: [
    [],
    () => {
      const chain = new VaultChain()
      return [chain, initializeInstruction(initializationOf(chain))]
    },
  ],
  // The admin may pay.
  register_mint: [
    ['1<-0'],
    () => {
      const vault = new OpenVault()
      const mint = bytes32('second mint')
      vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
      vault.chain.fund(other_payer)
      const keys = { program: vault.program, admin: vault.admin.key, payer: other_payer.key }
      const fields = { mint, token_program: TOKEN_PROGRAM, min_deposit: 1n, min_exit: 1n }
      return [vault.chain, registerMintInstruction({ ...keys, ...fields })]
    },
  ],
  deposit: [
    [],
    () => {
      const vault = runningVault(0n)
      return [vault.chain, depositInstruction(vault.depositOf(5_000n, element('inner')))]
    },
  ],
  settle: [
    [],
    () => {
      const note = requested()
      const batch = note.vault.batchOf({ nullifiers: [note.nullifier], payouts: [note.payout()] })
      return [note.vault.chain, settleInstruction(batch)]
    },
  ],
  anchor: [
    [],
    () => {
      const { chain, program, signer } = runningVault(0n)
      const position = { journal_seq: 1, journal_head: bytes32('head') }
      const limits = { not_after_slot: 9_999, not_after_s: 1_900_000_000 }
      const fields = { program, settlement_signer: signer.key, epoch: 1, ...position, ...limits }
      return [chain, anchorInstruction(fields)]
    },
  ],
  // The owner may pay.
  request_exit: [
    ['1<-0'],
    () => {
      const note = new ExitNote('deposit')
      note.vault.chain.fund(other_payer)
      return [note.vault.chain, requestExitInstruction(note.requestOf(other_payer.key))]
    },
  ],
  refuse_exit: [
    [],
    () => {
      const note = requested()
      note.vault.settle({ nullifiers: [note.nullifier] })
      return [note.vault.chain, refuseExitInstruction(note.refusalOf(other_payer.key))]
    },
  ],
  freeze: [
    [],
    () => {
      const note = requested()
      note.vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
      return [note.vault.chain, freezeInstruction(note.vault.program, note.nullifier)]
    },
  ],
  close_exit: [
    [],
    () => {
      const note = requested()
      const { vault, nullifier } = note
      vault.settle({ nullifiers: [nullifier], payouts: [note.payout()] })
      const fields = { program: vault.program, nullifier, bond_payer: other_payer.key }
      return [vault.chain, closeExitInstruction(fields)]
    },
  ],
  // The owner may pay.
  claim_escape: [
    ['1<-0'],
    () => {
      const down = new WindDown()
      const note = down.deposit(5_000n)
      down.freeze(note)
      return [down.chain, claimEscapeInstruction(down.claimOf(note))]
    },
  ],
  challenge_escape: [
    [],
    () => {
      const [down, note] = claimed(true)
      return [down.chain, challengeEscapeInstruction(down.challengeOf(note))]
    },
  ],
  pay_escape: [
    [],
    () => {
      const [down, note] = claimed(false)
      return [down.chain, down.payment(note)]
    },
  ],
  redirect_escape: [
    [],
    () => {
      const [down, note] = claimed(false)
      return [down.chain, down.redirection(note, bytes32('elsewhere'))]
    },
  ],
  declare_outage: [[], admin((fields) => declareOutageInstruction({ ...fields, extra_s: 1 }))],
  register_platform: [
    [],
    () => {
      const vault = new OpenVault()
      vault.chain.fund(other_payer)
      const root = { list: 'attestation_root', action: 'announce', value: ROOT.compressed } as const
      const admin = { program: vault.program, admin: vault.admin.key, payer: payer.key }
      landed(vault.chain.send(announceInstruction({ ...admin, ...root })))
      const fields = { ...developmentChain(), program: vault.program, payer: other_payer.key }
      const [verify, registration] = registerPlatformInstructions(fields)
      vault.chain.before = [verify]
      return [vault.chain, registration]
    },
  ],
  open_attested_epoch: [
    [],
    () => {
      const own = new AttestedVault()
      const [verify, opening] = own.opening()
      own.chain.before = [verify]
      return [own.chain, opening]
    },
  ],
  // The admin may pay.
  announce: [
    ['1<-0'],
    () => {
      const vault = new OpenVault()
      vault.chain.fund(other_payer)
      const keys = { program: vault.program, admin: vault.admin.key, payer: other_payer.key }
      const topic = { list: 'build', id: bytes32('compose') } as const
      return [vault.chain, announceInstruction({ ...keys, ...topic, action: 'announce' })]
    },
  ],
  set_admin: [[], admin((fields) => setAdminInstruction({ ...fields, action: 'announce', key: payer.key }))],
  authorize_restore: [[], admin((fields) => authorizeRestoreInstruction({ ...fields, action: 'announce' }))],
  pause: [[], admin(pauseInstruction)],
  unpause: [
    [],
    () => {
      const vault = new OpenVault()
      const fields = { program: vault.program, admin: vault.admin.key }
      landed(vault.chain.send(pauseInstruction(fields)))
      return [vault.chain, unpauseInstruction(fields)]
    },
  ],
  pay: [
    [],
    () => {
      const vault = runningVault()
      const destination = bytes32('destination')
      vault.setToken(destination, { owner: vault.trader.key })
      vault.settle({ payouts: [vault.withdrawal(1_000n, destination)] })
      return [vault.chain, vault.payment()]
    },
  ],
  grow_queue: [
    [],
    () => {
      const vault = runningVault()
      vault.chain.fund(other_payer)
      return [vault.chain, growQueueInstruction(vault.program, other_payer.key)]
    },
  ],
}

for (const [name, [expected, world]] of Object.entries(CASES))
  test(name, () => expect(survivors(...world())).toEqual(expected))

test('every instruction is among them', () => {
  expect(Object.keys(CASES).sort()).toEqual(
    Object.keys(INSTRUCTION)
      .filter((name) => name !== 'emit')
      .sort(),
  )
})

/** A deposit, an exit and withdrawals of which one is refunded, from the opening to the returned bond. */
function story(features?: FeatureSet) {
  const note = new ExitNote('deposit')
  const { vault, nullifier, opening, destination } = note
  const { chain, program } = vault
  if (features !== undefined) chain.svm.withFeatureSet(features)
  vault.deposit(9_000n, elements('inner', 1)[0]!)
  landed(chain.send(requestExitInstruction(note.requestOf(chain.payer.key))))
  const withdrawals = [destination, bytes32('nowhere')].map((to) => vault.withdrawal(700n, to))
  const nullifiers = [nullifier, ...elements('n', 2)].sort(Buffer.compare)
  const outputs = outputsOf(elements('c', 4))
  const batch = vault.settle({ nullifiers, outputs, payouts: [note.payout(), ...withdrawals] })
  const outcomes = vault.pay().map(({ outcome }) => outcome)
  expect(outcomes).toEqual(['paid', 'paid', 'destination_missing'])
  expect(vault.balance(destination)).toBe(opening.amount + 700n)
  landed(chain.send(closeExitInstruction({ program, nullifier, bond_payer: chain.payer.key })))
  expect(chain.tree()).toMatchObject({ root: vault.tree.root(), spent_root: vault.spent.root() })
  return { kind: batch.kind, payouts: batch.payouts, tree: chain.tree() }
}

test('every feature active', () => {
  const features = FeatureSet.allEnabled()
  // litesvm 1.5.0 runs no program at all with it.
  features.deactivate(decodeBase58('7VgiehxNxu53KdxgLspGQY8myE6f7UokaWa4jsGcaSz', 32)!)
  expect(story(features)).toEqual(story())
})

const NAMED = /^[a-z_]+$/

test('random data on a plausible account list is refused by name', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const { accounts } = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  const shape = fc.record({
    instruction: fc.integer({ min: 0, max: 25 }),
    data: fc.uint8Array({ maxLength: 400 }),
    count: fc.integer({ min: 0, max: accounts.length }),
  })
  fc.assert(
    fc.property(shape, ({ instruction, data, count }) => {
      const sent = {
        program: vault.program,
        accounts: accounts.slice(0, count),
        data: Uint8Array.of(instruction, ...data),
      }
      const outcome = vault.chain.outcome(sent, vault.signer)
      expect(outcome).toMatch(NAMED)
      expect(outcome).not.toBe('landed')
    }),
    { numRuns: 300 },
  )
})

test('one flipped byte of a batch either is refused by name or changes something nobody can check', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const good = settleInstruction(
    vault.batchOf({ nullifiers: elements('n', 2), outputs: outputsOf(elements('c', 2)) }),
  )
  // Journal and the values themselves are the signer's word; the rest of the header is checked.
  const free = (at: number): boolean => at >= 57 && (at < 97 || at >= 101)
  fc.assert(
    fc.property(fc.nat({ max: good.data.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const data = good.data.slice()
      data[at]! ^= flip
      const outcome = vault.chain.outcome({ ...good, data }, vault.signer)
      expect(outcome).toMatch(NAMED)
      if (!free(at)) expect([at, outcome]).not.toEqual([at, 'landed'])
    }),
    { numRuns: 300 },
  )
})
