/** Associated token accounts (SPL): address, creation, balance. */
import { AccountRole, type AccountSignerMeta, type Instruction } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { findAddress } from '../../protocol/vault/addresses'
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/programs'
import { addressOf, type ChainAccess } from './chain_access'

const ASSOCIATED_TOKEN_PROGRAM = decodeBase58('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL', 32)!
/** The associated-token program's "create, or leave as it is". */
const CREATE_IDEMPOTENT = Uint8Array.of(1)

export function associatedAccount(owner: Uint8Array, mint: Uint8Array): Uint8Array {
  return findAddress([owner, TOKEN_PROGRAM, mint], ASSOCIATED_TOKEN_PROGRAM).address
}

export function createAssociatedAccount(
  chain: ChainAccess,
  owner: Uint8Array,
  mint: Uint8Array,
): Instruction {
  const readonly = (address: Uint8Array) => ({ address: addressOf(address), role: AccountRole.READONLY })
  return {
    programAddress: addressOf(ASSOCIATED_TOKEN_PROGRAM),
    accounts: [
      {
        address: chain.payer.address,
        role: AccountRole.WRITABLE_SIGNER,
        signer: chain.payer,
      } as AccountSignerMeta,
      { address: addressOf(associatedAccount(owner, mint)), role: AccountRole.WRITABLE },
      readonly(owner),
      readonly(mint),
      readonly(SYSTEM_PROGRAM),
      readonly(TOKEN_PROGRAM),
    ],
    data: CREATE_IDEMPOTENT,
  }
}

/** Base units in a token account at `confirmed`; 0 when the account does not exist. */
export async function tokenBalance(chain: ChainAccess, account: Uint8Array): Promise<bigint> {
  const address = addressOf(account)
  const { value } = await chain.rpc
    .getAccountInfo(address, { encoding: 'base64', commitment: 'confirmed' })
    .send()
  if (value === null) return 0n
  const balance = await chain.rpc.getTokenAccountBalance(address, { commitment: 'confirmed' }).send()
  return BigInt(balance.value.amount)
}

/** The payer's own associated account of a mint, base58. */
export function ownAccount(chain: ChainAccess, mint: string): { bytes: Uint8Array; text: string } {
  const owner = decodeBase58(chain.payer.address, 32)!
  const bytes = associatedAccount(owner, decodeBase58(mint, 32)!)
  return { bytes, text: encodeBase58(bytes) }
}
