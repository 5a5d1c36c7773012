/** A vault instruction in the form @solana/kit compiles. */
import {
  type AccountMeta,
  AccountRole,
  type AccountSignerMeta,
  getAddressDecoder,
  type Instruction,
  type KeyPairSigner,
} from '@solana/kit'
import type { VaultInstruction } from '../../protocol/vault/instruction'

/** @throws RangeError when an account must sign and none of `signers` has its address */
export function toInstruction(vault: VaultInstruction, signers: readonly KeyPairSigner[]): Instruction {
  const decoder = getAddressDecoder()
  const accounts = vault.accounts.map((account): AccountMeta | AccountSignerMeta => {
    const address = decoder.decode(account.address)
    if (!account.signer)
      return { address, role: account.writable ? AccountRole.WRITABLE : AccountRole.READONLY }
    const signer = signers.find((one) => one.address === address)
    if (!signer) throw new RangeError(`no signer for ${address}`)
    return {
      address,
      signer,
      role: account.writable ? AccountRole.WRITABLE_SIGNER : AccountRole.READONLY_SIGNER,
    }
  })
  return { programAddress: decoder.decode(vault.program), accounts, data: vault.data }
}
