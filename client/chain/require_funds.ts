/** Looks whether the payer can pay before anything is signed, and says what is missing in words. */
import type { ChainAccess } from './chain_access'
import { patientRead } from './patient_read'
import { ownAccount, tokenBalance } from './token_account'
import { TransactionFailed } from './transaction_failed'

/** Solana's base fee of two signatures (Solana documentation, "Transaction fees"). */
const FEE_LAMPORTS = 10_000n
const BOND_LAMPORTS = 20_000_000n

/** @param account_bytes of the accounts the transaction makes. @throws TransactionFailed */
export async function requireLamports(
  chain: ChainAccess,
  account_bytes: readonly number[],
  bond = false,
): Promise<void> {
  const { rpc, payer } = chain
  let needed = FEE_LAMPORTS + (bond ? BOND_LAMPORTS : 0n)
  for (const bytes of account_bytes)
    needed += await patientRead(() => rpc.getMinimumBalanceForRentExemption(BigInt(bytes)).send())
  const { value: held } = await patientRead(() =>
    rpc.getBalance(payer.address, { commitment: 'confirmed' }).send(),
  )
  if (held >= needed) return
  const why = bond ? 'fee, rent and bond, the latter two returned' : 'fee and rent'
  throw new TransactionFailed(
    `the payer ${payer.address} holds ${held} lamports and needs ${needed} (${why}): send it SOL`,
  )
}

/** @param mint base58. @throws TransactionFailed */
export async function requireTokens(
  chain: ChainAccess,
  mint: string,
  token_program: Uint8Array,
  amount: bigint,
): Promise<void> {
  const { bytes, text } = ownAccount(chain, mint, token_program)
  const held = await patientRead(() => tokenBalance(chain, bytes))
  if (held >= amount) return
  throw new TransactionFailed(
    `the payer's token account ${text} holds ${held} units of ${mint}, less than ${amount}: fund it first`,
  )
}
