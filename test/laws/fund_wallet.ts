/** The wallet that pays a simulation's fees and deposits, and the accounts that payouts go to. */

import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { vaultTokenAddress } from '../../protocol/vault/addresses'
import { associatedTokenAddress } from '../../sandbox/chain/token_instructions'
import { MINTS } from './sim_settings'
import type { Simulation } from './simulation'

/** Half of the payees of a mint can be paid; the others are missing, the vault itself, and of another mint. */
export async function fundWallet({ chain, wallet, payees, random }: Simulation): Promise<void> {
  const { faucet } = chain.chain
  const owner = encodeBase58(wallet.key)
  await faucet.airdrop(owner, 10n ** 15n)
  const paid: Uint8Array[] = []
  for (const mint of MINTS) {
    await faucet.mintTo(mint, owner, 10n ** 17n)
    paid.push(decodeBase58(await associatedTokenAddress(owner, mint), 32)!)
  }
  MINTS.forEach((mint, at) => {
    const bytes = decodeBase58(mint, 32)!
    const usable = paid[at]!
    const other = paid[(at + 1) % paid.length]!
    const vault = vaultTokenAddress(chain.program, bytes)
    payees.set(toHex(bytes), [usable, usable, usable, random.bytes(32), vault, other])
  })
}
