/** A vault instruction in the form @solana/kit compiles. */
import {
  type AccountMeta,
  AccountRole,
  type AccountSignerMeta,
  type Instruction,
  type KeyPairSigner,
} from '@solana/kit'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { addressOf } from './chain_access'

/** @throws RangeError when an account must sign and none of `signers` has its address */
export function toInstruction(vault: VaultInstruction, signers: readonly KeyPairSigner[]): Instruction {
  const accounts = vault.accounts.map((account): AccountMeta | AccountSignerMeta => {
    const address = addressOf(account.address)
    if (!account.signer)
      return { address, role: account.writable ? AccountRole.WRITABLE : AccountRole.READONLY }
    const signer = signers.find((one) => one.address === address)
    if (!signer) throw new RangeError(`no signer for ${address}`)
    const role = account.writable ? AccountRole.WRITABLE_SIGNER : AccountRole.READONLY_SIGNER
    return { address, signer, role }
  })
  return { programAddress: addressOf(vault.program), accounts, data: vault.data }
}
