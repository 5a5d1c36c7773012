/** RPC methods that give test money; they exist on the embedded chain only. */
import type { Faucet } from '../faucet'
import { addressAt, configAt, type Method } from '../params'
import { invalidParams } from '../rpc_error'

/** Lamports one request may ask for: a thousand SOL, ample for tests and demos. */
const AIRDROP_MAX = 1_000_000_000_000n

export function faucetMethods(faucet: Faucet): Record<string, Method> {
  const requestAirdrop: Method = (_, params) => {
    const lamports = params[1]
    if (typeof lamports !== 'number' || !Number.isSafeInteger(lamports) || lamports < 1)
      throw invalidParams('lamports')
    if (BigInt(lamports) > AIRDROP_MAX) throw invalidParams('airdrop too large')
    return faucet.airdrop(addressAt(params, 0), BigInt(lamports))
  }

  /** `tacit_mintTo({mint, owner, amount})`: addresses in base58, amount as a decimal string; answers the signature. */
  const mintTo: Method = (machine, params) => {
    const { mint, owner, amount } = configAt(machine, params, 0)
    const text = String(amount)
    if (!/^[1-9][0-9]{0,19}$/.test(text) || BigInt(text) >= 1n << 64n) throw invalidParams('amount')
    return faucet
      .mintTo(addressAt([mint], 0), addressAt([owner], 0), BigInt(text))
      .catch((error: unknown) => {
        throw error instanceof RangeError ? invalidParams(error.message) : error
      })
  }
  return { requestAirdrop, tacit_mintTo: mintTo }
}
