/** Signs a transfer of lamports, the smallest useful transaction. */
import {
  address,
  appendTransactionMessageInstruction,
  type Blockhash,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  type KeyPairSigner,
  lamports,
  pipe,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { concatBytes, u64Le } from '../../../protocol/bytes'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { clientsOf } from './chain_folder'

/** A wallet with `sol` SOL, funded at once. */
export async function fundedWallet(chain: OpenedChain, sol = 10): Promise<KeyPairSigner> {
  const wallet = await generateKeyPairSigner()
  await clientsOf(chain)
    .rpc.requestAirdrop(wallet.address, lamports(BigInt(sol) * 1_000_000_000n))
    .send()
  chain.advance(1)
  return wallet
}

export async function signedTransfer(
  chain: { url: string },
  from: KeyPairSigner,
  to: string,
  amount: bigint,
  given?: { blockhash: Blockhash; lastValidBlockHeight: bigint },
) {
  const { rpc } = clientsOf(chain)
  const lifetime = given ?? (await rpc.getLatestBlockhash({ commitment: 'processed' }).send()).value
  const transfer = {
    programAddress: address('11111111111111111111111111111111'),
    accounts: [
      { address: from.address, role: 3 as const, signer: from },
      { address: address(to), role: 1 as const },
    ],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(amount)),
  }
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(from, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(10_000, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(100_000, m),
    (m) => appendTransactionMessageInstruction(transfer, m),
  )
  const transaction = await signTransactionMessageWithSigners(message)
  const signature = getSignatureFromTransaction(transaction)
  return { transaction, signature, wire: getBase64EncodedWireTransaction(transaction), lifetime }
}
