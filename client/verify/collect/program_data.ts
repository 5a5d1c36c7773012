/** The account in which Solana's upgradeable loader keeps a program (loader v3 `UpgradeableLoaderState::ProgramData`). */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { findAddress } from '../../../protocol/vault/addresses'
import { Refused } from '../refused'

export const LOADER_V3 = 'BPFLoaderUpgradeab1e11111111111111111111111'
/** Tag u32 = 3, slot u64, authority option u8, authority (32); the ELF follows. */
const HEADER_BYTES = 45
const TAG_PROGRAM_DATA = 3
const TAG_PROGRAM = 2

export function programDataAddress(program_id: Uint8Array): Uint8Array {
  return findAddress([program_id], decodeBase58(LOADER_V3, 32)!).address
}

/** Where a program account says that its data is. @throws Refused when it is no program account. */
export function namedProgramData(program: Uint8Array): string {
  if (program.length !== 36 || program[0] !== TAG_PROGRAM)
    throw new Refused('the program account is malformed')
  return encodeBase58(program.subarray(4))
}

/**
 * @param program_bytes length of the ELF file when known: what follows it must be zeros.
 * @throws Refused when the account is malformed or something follows the ELF.
 */
export function readProgramData(
  data: Uint8Array,
  program_bytes: number | undefined,
): { sha256: string; upgrade_authority: string | null } {
  if (data.length < HEADER_BYTES || data[0] !== TAG_PROGRAM_DATA || data[12]! > 1)
    throw new Refused('the program data account is malformed')
  const upgrade_authority = data[12] === 1 ? encodeBase58(data.slice(13, HEADER_BYTES)) : null
  const end = program_bytes === undefined ? data.length : HEADER_BYTES + program_bytes
  if (end > data.length || data.subarray(end).some((byte) => byte !== 0))
    throw new Refused('the program is longer or shorter than the policy says')
  return { sha256: toHex(sha256(data.subarray(HEADER_BYTES, end))), upgrade_authority }
}
