/**
 * The accounts of the chain: litesvm, plus the values that each unfinalized slot overwrote, so that older commitments stay
 * readable.
 */
import { type Address, type EncodedAccount, lamports } from '@solana/kit'
import { LiteSVM } from 'litesvm'

export type BankAccount = { lamports: bigint; data: Uint8Array; owner: string; executable: boolean }

export class Bank {
  readonly svm: LiteSVM
  /** Per slot that can still be undone: the value of each account before the slot's first write to it. */
  #before = new Map<number, Map<string, BankAccount | undefined>>()
  #slot = 0

  constructor() {
    // Blockhash life and repeats are decided by the server, which keeps a window of 150 blocks and every signature.
    this.svm = new LiteSVM().withBlockhashCheck(false).withTransactionHistory(0n)
  }

  /** Opens a slot: later writes belong to it. */
  begin(slot: number, unix_s: number): void {
    this.#slot = slot
    this.#before.set(slot, new Map())
    const clock = this.svm.getClock()
    clock.slot = BigInt(slot)
    clock.unixTimestamp = BigInt(unix_s)
    clock.epoch = BigInt(Math.floor(slot / SLOTS_PER_EPOCH))
    this.svm.setClock(clock)
  }

  /** Forgets how to undo slots up to and including `slot`. */
  finalize(slot: number): void {
    for (const known of this.#before.keys()) if (known <= slot) this.#before.delete(known)
  }

  /** Must be called for every account a transaction may write, before it runs. */
  remember(address: string): void {
    const before = this.#before.get(this.#slot)
    if (before && !before.has(address)) before.set(address, this.newest(address))
  }

  newest(address: string): BankAccount | undefined {
    const found = this.svm.getAccount(address as Address)
    if (!found.exists) return undefined
    return {
      lamports: found.lamports,
      data: new Uint8Array(found.data),
      owner: found.programAddress,
      executable: found.executable,
    }
  }

  /** The account at the end of `slot`. */
  at(address: string, slot: number): BankAccount | undefined {
    for (const [written, before] of this.#before) {
      if (written > slot && before.has(address)) return before.get(address)
    }
    return this.newest(address)
  }

  /** Accounts of a program at the end of `slot`. */
  ownedBy(owner: string, slot: number): [string, BankAccount][] {
    const addresses = new Set(
      this.svm.getProgramAccounts(owner as Address).map((account) => account.address as string),
    )
    for (const [written, before] of this.#before) {
      if (written <= slot) continue
      for (const [address, account] of before) if (account?.owner === owner) addresses.add(address)
    }
    const found: [string, BankAccount][] = []
    for (const address of addresses) {
      const account = this.at(address, slot)
      if (account?.owner === owner) found.push([address, account])
    }
    return found
  }

  put(address: string, account: BankAccount | undefined): void {
    const stored: EncodedAccount = {
      address: address as Address,
      lamports: lamports(account?.lamports ?? 0n),
      data: account?.data ?? new Uint8Array(),
      programAddress: (account?.owner ?? SYSTEM_PROGRAM) as Address,
      executable: account?.executable ?? false,
      space: BigInt(account?.data.length ?? 0),
    }
    this.svm.setAccount(stored)
  }

  /** Addresses the slot may have written. */
  written(slot: number): Iterable<string> {
    return this.#before.get(slot)?.keys() ?? []
  }

  /** Takes back every slot above `slot`; returns the addresses whose value changed. */
  undo(slot: number): Set<string> {
    const restored = new Set<string>()
    const slots = [...this.#before.keys()].filter((known) => known > slot).sort((a, b) => b - a)
    for (const known of slots) {
      for (const [address, account] of this.#before.get(known)!) {
        this.put(address, account)
        restored.add(address)
      }
      this.#before.delete(known)
    }
    return restored
  }
}

export const SYSTEM_PROGRAM = '11111111111111111111111111111111'
const SLOTS_PER_EPOCH = 432_000
