/** Opens a wallet's file for one program: locked until it is closed, and saved as a whole. Bun and Node. */
import { lockFile } from './file_lock'
import { ReceiptFile } from './receipt_file'
import type { Wallet } from './wallet'
import { loadWallet, saveWallet } from './wallet_file'

/** Keeps a wallet; `save` is durable when it returns, or throws and has changed nothing. */
export type WalletStore = {
  wallet: Wallet
  save(wallet: Wallet): void
  /** Where verified receipts are kept. */
  receipts?: ReceiptFile
  close?(): void
}

/** @throws RangeError for no file, NotAWallet, WalletLocked, InUse */
export function openWalletFile(path: string, password?: string): WalletStore {
  const close = lockFile(path)
  try {
    const wallet = loadWallet(path, password)
    if (wallet === undefined) throw new RangeError(`there is no wallet at ${path}`)
    const receipts = new ReceiptFile(path, wallet.seed)
    return { wallet, save: (changed) => saveWallet(path, changed), receipts, close }
  } catch (error) {
    close()
    throw error
  }
}
