/** What is left when everything stops at one moment: the venue's folder, the client's files and the chain. */
import { copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Ledger } from '../kit/venue/memory_chain'

/** @param skips files that hold nothing yet, and those that SQLite makes again */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (/^spare|-shm$/.test(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyFolder(source, target)
    else copyFileSync(source, target)
  }
}

/** A wallet and what an interrupted save leaves beside it. */
export function copyWallet(from: string, to: string): void {
  for (const end of ['', '.new', '.last']) if (existsSync(from + end)) copyFileSync(from + end, to + end)
}

export type ChainState = ReturnType<typeof chainState>

/** The ledger as it is; its trees only grow, so their sizes are enough. */
export function chainState(ledger: Ledger) {
  const { slot, config, settled, anchors, liabilities, notes, spent } = ledger
  return {
    slot,
    config,
    settled: [...settled],
    anchors: [...anchors],
    liabilities: [...liabilities],
    leaves: notes.leaf_count,
    batches: spent.leaf_count,
  }
}

/** Puts back an earlier state of the same ledger. */
export function restoreChain(ledger: Ledger, state: ChainState): void {
  ledger.slot = state.slot
  ledger.config = state.config
  ledger.withheld = false
  ledger.settled.splice(0, ledger.settled.length, ...state.settled)
  ledger.anchors.splice(0, ledger.anchors.length, ...state.anchors)
  ledger.liabilities.clear()
  for (const [mint, amount] of state.liabilities) ledger.liabilities.set(mint, amount)
  ledger.notes.truncate(state.leaves)
  ledger.spent.truncate(state.batches)
}

/** What a client's caller knows beside the wallet: deposits, outcomes as told, and the bytes of what was sent. */
export type Known = {
  deposited: Map<string, bigint>
  told: Map<string, string>
  bytes: Map<string, string>
}
