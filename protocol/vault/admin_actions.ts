/**
 * Owns `rotate_signer` (10), `set_admin` (11), `authorize_restore` (12), `pause` (13) and `unpause` (14).
 *
 * Data: rotate_signer and set_admin, 34 bytes: 0 discriminator · 1 action u8 · 2 key (32, zeros unless announced) ·
 * authorize_restore, 2 bytes: 0 discriminator · 1 action u8 · pause and unpause, 1 byte.
 * Actions: 0 announce, 1 apply once effective, 2 cancel. The admin signs, except that a new admin applies its own
 * announcement, which proves that its key exists. authorize_restore has no apply: `open_epoch` consumes it.
 */
import { listAccounts } from './account_list'
import { vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'

export const ADMIN_ACTIONS = ['announce', 'apply', 'cancel'] as const
export type AdminAction = (typeof ADMIN_ACTIONS)[number]

export const ADMIN_ACCOUNTS = [
  { name: 'admin', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
] as const

type AdminFields = { program: Uint8Array; admin: Uint8Array }
type KeyAction = { action: 'announce'; key: Uint8Array } | { action: 'apply' | 'cancel' }

function adminInstruction({ program, admin }: AdminFields, data: Uint8Array): VaultInstruction {
  const { config } = vaultAddresses(program)
  return { program, accounts: listAccounts(ADMIN_ACCOUNTS, { admin, config }), data }
}

function keyActionData(discriminator: number, fields: KeyAction): Uint8Array {
  return new LayoutWriter(34)
    .u8(discriminator)
    .u8(ADMIN_ACTIONS.indexOf(fields.action))
    .bytes(fields.action === 'announce' ? fields.key : new Uint8Array(32), 32)
    .finish()
}

/** Effective twice the exit delay after the announcement. */
export const rotateSignerInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, keyActionData(INSTRUCTION.rotate_signer, fields))

/** Effective twice the exit delay after the announcement; `admin` is the new one for `apply`. */
export const setAdminInstruction = (fields: AdminFields & KeyAction): VaultInstruction =>
  adminInstruction(fields, keyActionData(INSTRUCTION.set_admin, fields))

/** Effective a quarter of the exit delay after the announcement. */
export const authorizeRestoreInstruction = (
  fields: AdminFields & { action: 'announce' | 'cancel' },
): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.authorize_restore, ADMIN_ACTIONS.indexOf(fields.action)))

/** Stops `deposit` and `settle` at once; exits go on. */
export const pauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.pause))

export const unpauseInstruction = (fields: AdminFields): VaultInstruction =>
  adminInstruction(fields, Uint8Array.of(INSTRUCTION.unpause))
