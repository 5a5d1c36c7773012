/**
 * Builds `register_platform` (24): the vault program itself verifies a machine's PCK certificate. All data lies in the vault's
 * instruction; the `secp256r1` precompile before it is only the 30 bytes of offsets that point there.
 */
import { concatBytes, utf8 } from '../bytes'
import { fixed, sized, struct, u8, u16, type ValueOf, zeros } from '../codec'
import { address, findAddress, SYSTEM_PROGRAM, vaultAddresses } from './addresses'
import { type AnnouncedTopic, announcementAddress } from './admin'
import { type Forms, listAccounts, numberOf, type VaultInstruction } from './instruction'

export const SECP256R1_PRECOMPILE = address('Secp256r1SigVerify1111111111111111111111111')
export const INSTRUCTIONS_SYSVAR = address('Sysvar1nstructions1111111111111111111111111')

/** Bytes of a compressed P-256 key: parity, x. */
export const KEY_BYTES = 33
export const SIGNATURE_BYTES = 64
/** Record of the root that certifies the authority. */
const ROOT: AnnouncedTopic = { list: 'attestation_root' }

/** Seeds of a platform's record. `key`: compressed PCK key. */
const platformSeeds = (key: Uint8Array): readonly Uint8Array[] => [utf8('platform'), key.slice(1)]

/** Address of the record of the platform whose compressed PCK key this is. */
export const platformAddress = (program: Uint8Array, key: Uint8Array): Uint8Array =>
  findAddress(platformSeeds(key), program).address

/** 197 bytes before the two signed parts. Signatures are r ‖ s with low s. */
const REGISTER_PLATFORM = struct({
  instruction: numberOf('register_platform'),
  leaf_signature: fixed(SIGNATURE_BYTES),
  authority_key: fixed(KEY_BYTES),
  authority_signature: fixed(SIGNATURE_BYTES),
  root_key: fixed(KEY_BYTES),
  /** Signed part of the PCK certificate, DER. */
  leaf: sized(u16),
  /** Signed part of its authority's certificate, DER. */
  authority: sized(u16),
})

const REGISTER_PLATFORM_ACCOUNTS = {
  payer: 'sw',
  config: '',
  attestation_root: '',
  platform: 'w',
  instructions_sysvar: '',
  system_program: '',
  program: '',
} as const

/** What a platform's certificate says, as the event of its registration and behind the head of its record. */
const VERSIONS = { ppid: fixed(16), fmspc: fixed(6), components: fixed(16), pce_svn: u16 } as const
export const PLATFORM_REGISTERED = struct({ key: fixed(KEY_BYTES), ...VERSIONS })

/** 112 bytes behind 3 of the head. The keys are x; their parities are apart. */
export const PLATFORM_FIELDS = {
  parity: u8,
  root_parity: u8,
  zero: zeros(1),
  pce_svn: u16,
  key: fixed(32),
  root: fixed(32),
  ppid: fixed(16),
  components: fixed(16),
  fmspc: fixed(6),
  reserved: zeros(2),
} as const

export type RegisterPlatformFields = Omit<ValueOf<typeof REGISTER_PLATFORM>, 'instruction'> & {
  program: Uint8Array
  payer: Uint8Array
  /** Compressed key in the PCK certificate. */
  key: Uint8Array
}

/** A signature that the precompile verifies: places in the data of the instruction behind it. */
type Signed = { signature: number; key: number; message: number; length: number }

const OFFSETS = struct({
  signature: u16,
  signature_at: u16,
  key: u16,
  key_at: u16,
  message: u16,
  length: u16,
  message_at: u16,
})

/** The precompile's instruction whose offsets point into the instruction at `index` of the transaction. */
export function verifying(signed: readonly Signed[], index: number): VaultInstruction {
  const at = { signature_at: index, key_at: index, message_at: index }
  const offsets = signed.map((one) => OFFSETS.encode({ ...one, ...at }))
  const data = concatBytes(Uint8Array.of(signed.length, 0), ...offsets)
  return { program: SECP256R1_PRECOMPILE, accounts: [], data }
}

/**
 * Both instructions of one v1 transaction, in order. `first`: index of the first one in it.
 * @throws RangeError when a key or signature has another length
 */
export function registerPlatformInstructions(
  fields: RegisterPlatformFields,
  first = 0,
): [VaultInstruction, VaultInstruction] {
  const { program, payer, key, leaf, authority } = fields
  const accounts = listAccounts(REGISTER_PLATFORM_ACCOUNTS, {
    payer,
    program,
    system_program: SYSTEM_PROGRAM,
    instructions_sysvar: INSTRUCTIONS_SYSVAR,
    config: vaultAddresses(program).config,
    attestation_root: announcementAddress(program, ROOT),
    platform: platformAddress(program, key),
  })
  const at = REGISTER_PLATFORM.offsetOf
  const message = at('leaf') + 2
  const signed = [
    { signature: at('leaf_signature'), key: at('authority_key'), message, length: leaf.length },
    {
      signature: at('authority_signature'),
      key: at('root_key'),
      message: message + leaf.length + 2,
      length: authority.length,
    },
  ]
  const data = REGISTER_PLATFORM.encode(fields)
  return [verifying(signed, first + 1), { program, accounts, data }]
}

export const PLATFORM_FORMS = {
  register_platform: { data: REGISTER_PLATFORM, accounts: REGISTER_PLATFORM_ACCOUNTS },
} satisfies Forms
