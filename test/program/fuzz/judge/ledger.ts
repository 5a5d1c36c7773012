/** The fuzzer's own record of every account: what the chain must hold, kept apart from the chain. */
import { toHex } from '../../../../protocol/bytes'
import { SYSTEM_PROGRAM } from '../../../../protocol/vault/addresses'
import type { RawAccount, RawChain } from '../raw_chain'

const copyOf = ({ owner, data, lamports }: RawAccount): RawAccount => ({
  owner: owner.slice(),
  data: data.slice(),
  lamports,
})

export class Ledger {
  readonly #chain: RawChain
  readonly #known = new Map<string, RawAccount>()

  constructor(chain: RawChain) {
    this.#chain = chain
  }

  /** Read from the chain at first sight, from then on changed only by judged transactions and `set`. */
  get(address: Uint8Array): Readonly<RawAccount> {
    const key = toHex(address)
    let account = this.#known.get(key)
    if (account === undefined) {
      account = this.onChain(address)
      this.#known.set(key, account)
    }
    return account
  }

  /** What the chain holds now; an absent account is one of the system program without lamports. */
  onChain(address: Uint8Array): RawAccount {
    return this.#chain.account(address) ?? { owner: SYSTEM_PROGRAM, data: new Uint8Array(), lamports: 0n }
  }

  /** Puts an account on the chain by force. */
  set(address: Uint8Array, account: RawAccount): void {
    this.#chain.setAccount(address, account)
    this.#known.set(toHex(address), copyOf(account))
  }

  draft(): Draft {
    return new Draft(this)
  }

  /** Takes over what a draft changed. */
  keep(draft: Draft): void {
    for (const [key, account] of draft.changed) this.#known.set(key, account)
  }

  /** Puts accounts back on the chain as this ledger knows them. */
  restore(addresses: readonly Uint8Array[]): void {
    for (const address of addresses) this.#chain.setAccount(address, copyOf(this.get(address)))
  }
}

/** A ledger with the changes of one transaction on top. */
export class Draft {
  readonly changed = new Map<string, RawAccount>()
  readonly #base: Ledger

  constructor(base: Ledger) {
    this.#base = base
  }

  /** An account to read or to change in place. */
  at(address: Uint8Array): RawAccount {
    const key = toHex(address)
    let account = this.changed.get(key)
    if (account === undefined) {
      account = copyOf(this.#base.get(address))
      this.changed.set(key, account)
    }
    return account
  }
}
