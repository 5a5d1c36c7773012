/** Admin changes are announced first and take effect later, so that users can leave in between. */
import { expect, test } from 'bun:test'
import { u64Le } from '../../../protocol/bytes'
import {
  authorizeRestoreInstruction,
  declareOutageInstruction,
  pauseInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { freezeInstruction } from '../../../protocol/vault/exits'
import { EXIT_DELAY_S, errorOf, landed, OpenVault } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'
import { WindDown } from '../../kit/vault/wind_down'

const NOW_S = 1_800_000_000
const EFFECTIVE_S = NOW_S + 2 * EXIT_DELAY_S
const DAY_S = 86_400
/** In a config account (protocol/vault/accounts.ts). */
const EXIT_DELAY_AT = 32
const next = testKey('next')

test('set_admin announces, waits twice the exit delay and applies once', () => {
  const vault = new OpenVault()
  vault.chain.fund(next)
  const admin = { program: vault.program, admin: vault.admin.key }
  const applying = { ...admin, admin: next.key }
  const apply = (): string => errorOf(vault.chain.send(setAdminInstruction({ ...applying, action: 'apply' })))
  expect(apply()).toBe('nothing_pending')
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  expect(vault.chain.config().pending_admin).toEqual({ key: next.key, effective_at_s: EFFECTIVE_S })
  vault.chain.setTime(2_000, EFFECTIVE_S - 1)
  expect(apply()).toBe('not_effective')
  vault.chain.setTime(2_000, EFFECTIVE_S)
  const unsigned = setAdminInstruction({ ...applying, action: 'apply' })
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  expect(apply()).toBe('landed')
  expect(vault.chain.config().admin).toEqual(next.key)
  expect(vault.chain.config().pending_admin).toBeUndefined()
  expect(apply()).toBe('nothing_pending')
})

test('set_admin can be cancelled, and announcing again starts the wait anew', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, NOW_S + 500)
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  expect(vault.chain.config().pending_admin?.effective_at_s).toBe(EFFECTIVE_S + 500)
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'cancel' })))
  expect(vault.chain.config().pending_admin).toBeUndefined()
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...admin, action: 'cancel' })))).toBe(
    'nothing_pending',
  )
})

test('set_admin is void 30 days after it took effect, and can be cancelled or announced again', () => {
  const vault = new OpenVault()
  vault.chain.fund(next)
  const admin = { program: vault.program, admin: vault.admin.key }
  const applying = { ...admin, admin: next.key }
  const announce = () =>
    landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  announce()
  const apply = setAdminInstruction({ ...applying, action: 'apply' })
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S)
  expect(vault.chain.outcome(apply)).toBe('landed')
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S + 1)
  expect(vault.chain.outcome(apply)).toBe('nothing_pending')
  expect(vault.chain.outcome(setAdminInstruction({ ...admin, action: 'cancel' }))).toBe('landed')
  announce()
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S + 1 + 2 * EXIT_DELAY_S)
  expect(vault.chain.outcome(apply)).toBe('landed')
})

test('set_admin belongs to the admin', () => {
  const vault = new OpenVault()
  const thief = vault.chain.fund(testKey('thief'))
  const forged = { program: vault.program, admin: thief.key }
  const announce = { action: 'announce', key: thief.key } as const
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, ...announce })))).toBe('not_admin')
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, EFFECTIVE_S)
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, action: 'cancel' })))).toBe('not_admin')
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, action: 'apply' })))).toBe('not_admin')
})

test('set_admin refuses a zero key and unknown actions', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const zero = setAdminInstruction({ ...admin, action: 'announce', key: new Uint8Array(32) })
  expect(errorOf(vault.chain.send(zero))).toBe('invalid_data')
  zero.data[1] = 3
  expect(errorOf(vault.chain.send(zero))).toBe('invalid_data')
})
test('the old admin cannot apply the change for a new one', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, EFFECTIVE_S)
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...admin, action: 'apply' })))).toBe('not_admin')
})

test('pause and unpause are the admin’s and each changes something', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  expect(errorOf(vault.chain.send(unpauseInstruction(admin)))).toBe('not_paused')
  landed(vault.chain.send(pauseInstruction(admin)))
  expect(vault.chain.config()).toMatchObject({ paused: true, paused_at_s: NOW_S })
  expect(errorOf(vault.chain.send(pauseInstruction(admin)))).toBe('not_paused')
  const thief = vault.chain.fund(testKey('thief'))
  expect(errorOf(vault.chain.send(unpauseInstruction({ ...admin, admin: thief.key })))).toBe('not_admin')
  const unsigned = unpauseInstruction(admin)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  landed(vault.chain.send(unpauseInstruction(admin)))
  expect(vault.chain.config().paused).toBe(false)
})

test('an announced restore can be cancelled', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const applied = authorizeRestoreInstruction({ ...admin, action: 'announce' })
  applied.data[1] = 1
  expect(errorOf(vault.chain.send(applied))).toBe('invalid_data')
  const longer = authorizeRestoreInstruction({ ...admin, action: 'announce' })
  longer.data = Uint8Array.of(...longer.data, 0)
  expect(errorOf(vault.chain.send(longer))).toBe('invalid_data')
  expect(errorOf(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'cancel' })))).toBe(
    'nothing_pending',
  )
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  expect(vault.chain.config().pending_restore_at_s).toBe(NOW_S + EXIT_DELAY_S / 4)
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'cancel' })))
  expect(vault.chain.config().pending_restore_at_s).toBe(0)
})

test('a restore that nobody made is void 30 days after it took effect', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  const effective_at_s = NOW_S + EXIT_DELAY_S / 4
  const restore = () => vault.chain.outcome(vault.opening({ restore: true, generation: 1 }))
  vault.chain.setTime(2_000, effective_at_s + 30 * DAY_S + 1)
  expect(restore()).toBe('restore_not_authorized')
  vault.chain.setTime(2_000, effective_at_s + 30 * DAY_S)
  expect(restore()).toBe('landed')
})

const setExitDelay = ({ chain, program }: OpenVault, exit_delay_s: number): void => {
  const { data, lamports } = chain.account(chain.vault.config)!
  data.set(u64Le(BigInt(exit_delay_s)), EXIT_DELAY_AT)
  chain.setAccount(chain.vault.config, data, program, lamports)
}

test('an outage is declared by the admin, for at most three exit delays, once in 90 days', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const declare = (extra_s: number, key = admin.admin): string =>
    errorOf(vault.chain.send(declareOutageInstruction({ ...admin, admin: key, extra_s })))
  expect(declare(1, vault.chain.fund(testKey('thief')).key)).toBe('not_admin')
  expect(declare(0)).toBe('invalid_data')
  expect(declare(3 * EXIT_DELAY_S + 1)).toBe('invalid_data')
  expect(declare(3 * EXIT_DELAY_S)).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ outage_at_s: NOW_S, outage_extra_s: 3 * EXIT_DELAY_S })
  vault.chain.setTime(2_000, NOW_S + 90 * DAY_S - 1)
  expect(declare(1)).toBe('outage_too_soon')
  vault.chain.setTime(2_000, NOW_S + 90 * DAY_S)
  expect(declare(1)).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ outage_at_s: NOW_S + 90 * DAY_S, outage_extra_s: 1 })
})

test('the next outage waits until each deadline that the last one extended is over', () => {
  const down = new WindDown()
  const { vault, chain } = down
  const delay_s = 30 * DAY_S
  setExitDelay(vault, delay_s)
  const note = down.deposit(40_000n)
  down.request(note)
  const requested_s = NOW_S
  const declare = (extra_s: number) =>
    errorOf(chain.send(declareOutageInstruction({ program: vault.program, admin: vault.admin.key, extra_s })))
  const declared_s = requested_s + delay_s - 1
  chain.setTime(2_000, declared_s)
  expect(declare(90 * DAY_S)).toBe('landed')
  const freezable_s = requested_s + delay_s + 90 * DAY_S
  const freeze = () => chain.outcome(freezeInstruction(vault.program, note.nullifier))
  chain.setTime(3_000, declared_s + 90 * DAY_S)
  expect(declare(1)).toBe('outage_too_soon')
  chain.setTime(3_000, freezable_s)
  expect(freeze()).toBe('deadline_not_reached')
  chain.setTime(3_000, declared_s + 120 * DAY_S - 1)
  expect(declare(1)).toBe('outage_too_soon')
  expect(freeze()).toBe('landed')
  chain.setTime(3_000, declared_s + 120 * DAY_S)
  expect(declare(1)).toBe('landed')
})

test('an outage is not declared in a frozen vault', () => {
  const down = new WindDown()
  down.freeze(down.deposit(5_000n))
  const { program, admin } = down.vault
  const outage = declareOutageInstruction({ program, admin: admin.key, extra_s: 1 })
  expect(errorOf(down.chain.send(outage))).toBe('vault_frozen')
})
