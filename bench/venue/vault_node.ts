/** Serves a vault with many settled leaves over JSON-RPC, in the shapes of a Solana node, and counts the calls. */

import { hashFast } from '../../client/wallet/hash_fast'
import { encodeBase58 } from '../../protocol/base58'
import { concatBytes } from '../../protocol/bytes'
import {
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
  deriveTradingKey,
} from '../../protocol/notes/derive'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  encodeMemo,
  noteInner,
  nullifierOf,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { publicKeyOf } from '../../protocol/sign'
import { CONFIG, decodeConfig, TREE } from '../../protocol/vault/accounts'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { EVENT, type VaultEvent } from '../../protocol/vault/events'
import { answerQuestions } from '../kit/child_process'
import { random } from '../kit/figures'

/** Of a batch with 28 parts of orders. */
const [OUTPUTS, NULLIFIERS] = [56, 28]
const AMOUNT = 1_000_000n
const PROGRAM = new Uint8Array(32).fill(7)
const MINT = new Uint8Array(32).fill(8)
const SLOTS_PER_BATCH = 2

const next = random(1)
function element(): Uint8Array {
  const words = Uint32Array.from({ length: 8 }, next)
  const bytes = new Uint8Array(words.buffer)
  bytes[0]! &= 31
  return bytes
}

type Note = { commitment: Uint8Array; blinding: Uint8Array; amount: bigint }

/** Fills of a wallet: each spends the last note and leaves half of it as proceeds, half as change. */
class Trader {
  private readonly owner: Uint8Array
  private command = 0
  note: Note
  constructor(
    private readonly seed: Uint8Array,
    private readonly unfilled: number,
  ) {
    this.owner = publicKeyOf(deriveTradingKey(seed, 0))
    const blinding = deriveDepositBlinding(seed, 0, 0)
    const opening = { mint: MINT, amount: AMOUNT, inner: noteInner(this.owner, blinding), leaf_index: 0 }
    this.note = { commitment: depositCommitment(opening), blinding, amount: AMOUNT }
  }
  get inner(): Uint8Array {
    return noteInner(this.owner, this.note.blinding)
  }
  fill(): { nullifier: Uint8Array; outputs: { commitment: Uint8Array; memo: Uint8Array }[] } {
    this.command += this.unfilled
    const n = this.command++
    const { commitment, blinding, amount } = this.note
    const parts = {
      anchor: deriveAnchor(this.seed, 0, 16 * n),
      order_id: deriveOrderId(this.seed, 0, n),
      nonce: BigInt(n + 1),
      generation: 0,
    }
    const made = [amount / 2n, amount - amount / 2n].map((part, index_role): Note => {
      const own = outputBlinding({ ...parts, index_role })
      const inner = noteInner(this.owner, own)
      return {
        commitment: settlementCommitment({ mint: MINT, amount: part, inner }),
        blinding: own,
        amount: part,
      }
    })
    this.note = made[1]!
    const outputs = made.map((one) => ({
      commitment: one.commitment,
      memo: encodeMemo(one.blinding, one.amount),
    }))
    return { nullifier: nullifierOf(commitment, blinding), outputs }
  }
}

type Transaction = { signature: Uint8Array; slot: number; event: Uint8Array }

class Vault {
  readonly transactions: Transaction[] = []
  private readonly by_signature = new Map<string, Transaction>()
  private readonly tree = new MerkleTree()
  private readonly log = new SpentLog()
  private spent_count = 0

  constructor(private readonly trader: Trader) {
    const { commitment, amount } = trader.note
    const opening = { mint: MINT, amount, inner: trader.inner, leaf_index: 0, commitment }
    this.tree.append([commitment])
    const rest = { note_root: element(), depositor: element() }
    this.land({ kind: 'deposited', ...opening, ...rest })
  }

  /** Settles a batch of strangers, and of the trader if it fills. */
  settle(fills: boolean): void {
    const batch = this.log.leaf_count + 1
    const own = fills ? this.trader.fill() : { nullifier: element(), outputs: [] }
    const nullifiers = [own.nullifier, ...Array.from({ length: NULLIFIERS - 1 }, element)]
    const outputs = [...own.outputs]
    while (outputs.length < OUTPUTS) outputs.push({ commitment: element(), memo: element().slice(0, 16) })
    const first_leaf_index = this.tree.leaf_count
    this.tree.append(outputs.map(({ commitment }) => commitment))
    this.log.append([spentLogLeaf(batch, nullifiers)])
    this.spent_count += nullifiers.length
    const roots = { note_root: element(), spent_root: element(), spent_count: this.spent_count }
    const lists = { nullifiers, outputs, payouts: [] }
    this.land({ kind: 'settled', batch, epoch: 1, first_leaf_index, ...roots, ...lists })
  }

  private land(event: VaultEvent): void {
    const slot = 1_000 + SLOTS_PER_BATCH * this.transactions.length
    const signature = concatBytes(element(), element())
    const transaction = { signature, slot, event: EVENT.encode({ event }) }
    this.transactions.push(transaction)
    this.by_signature.set(encodeBase58(signature), transaction)
  }

  get slot(): number {
    return this.transactions.at(-1)!.slot + 1
  }

  accounts(): Uint8Array[] {
    // Everything that is not set is zero.
    const bytes = new Uint8Array(CONFIG.size!)
    bytes.set([1, 2])
    const config = { ...decodeConfig(bytes)!, epoch: 1, last_batch: this.log.leaf_count }
    const empty = Array.from({ length: 40 }, () => new Uint8Array(32))
    const tree = TREE.encode({
      bump: 0,
      leaf_count: this.tree.leaf_count,
      root: this.tree.root(),
      frontier: empty,
      spent_root: this.log.root(),
      spent_frontier: empty,
    })
    const [ring, queue] = [new Uint8Array(9_616), new Uint8Array(160)]
    ring.set([3, 2])
    queue.set([7, 2])
    queue[8] = 1
    return [CONFIG.encode({ ...config, spent_count: this.spent_count }), tree, ring, queue]
  }

  find(signature: string): Transaction {
    return this.by_signature.get(signature)!
  }

  /** Newest first. */
  page(before: string | undefined, limit: number): Transaction[] {
    const end = before === undefined ? this.transactions.length : this.transactions.indexOf(this.find(before))
    return this.transactions.slice(Math.max(0, end - limit), end).reverse()
  }
}

const { config, tree, ring } = vaultAddresses(PROGRAM)
/** A legacy transaction of one instruction: payer, program, config, tree, ring; only its signature differs. */
const wireOf = (signature: Uint8Array): Uint8Array => {
  const keys = concatBytes(new Uint8Array(32).fill(9), PROGRAM, config, tree, ring)
  const message = concatBytes(
    Uint8Array.of(1, 0, 4, 5),
    keys,
    new Uint8Array(32),
    Uint8Array.of(1, 1, 1, 2, 0),
  )
  return concatBytes(Uint8Array.of(1), signature, message)
}

type Params = [unknown, { limit?: number; before?: string }?]
const METHODS: Record<string, (vault: Vault, params: Params) => unknown> = {
  getGenesisHash: () => encodeBase58(new Uint8Array(32).fill(1)),
  getMultipleAccounts: (vault) => {
    const value = vault.accounts().map((data) => ({
      lamports: 1,
      executable: false,
      rentEpoch: 0,
      space: data.length,
      owner: encodeBase58(PROGRAM),
      data: [Buffer.from(data).toString('base64'), 'base64'],
    }))
    return { context: { slot: vault.slot }, value }
  },
  getSignaturesForAddress: (vault, [, { limit = 1_000, before } = {}]) =>
    vault.page(before, limit).map(({ signature, slot }) => {
      const rest = { err: null, memo: null, blockTime: 0, confirmationStatus: 'finalized' }
      return { signature: encodeBase58(signature), slot, ...rest }
    }),
  getTransaction: (vault, [signature]) => {
    const { slot, event, signature: bytes } = vault.find(signature as string)
    const emitted = { programIdIndex: 1, accounts: [2], data: encodeBase58(event), stackHeight: 2 }
    const innerInstructions = [{ index: 0, instructions: [emitted] }]
    const loadedAddresses = { writable: [], readonly: [] }
    const meta = { err: null, fee: 5_000, innerInstructions, loadedAddresses, logMessages: [] }
    const transaction = [Buffer.from(wireOf(bytes)).toString('base64'), 'base64']
    return { slot, blockTime: 0, version: 'legacy', meta, transaction }
  },
}

let vault: Vault
let calls = 0
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const { id, method, params } = (await request.json()) as { id: number; method: string; params: Params }
    calls += 1
    return Response.json({ jsonrpc: '2.0', id, result: METHODS[method]!(vault, params) })
  },
})

export type MadeVault = { rpc_url: string; program_id: string }

hashFast()
answerQuestions({
  /** Settles batches until there are so many leaves; the trader fills `fills` times among them. */
  make({
    leaves,
    fills,
    unfilled,
    seed,
  }: {
    leaves: number
    fills: number
    unfilled: number
    seed: Uint8Array
  }) {
    vault = new Vault(new Trader(new Uint8Array(seed), unfilled))
    const batches = Math.ceil(leaves / OUTPUTS)
    const every = Math.floor(batches / fills)
    for (let batch = 0; batch < batches; batch++) vault.settle(batch % every === every - 1)
    return { rpc_url: server.url.href, program_id: encodeBase58(PROGRAM) } satisfies MadeVault
  },
  grow({ batches }: { batches: number }) {
    for (let batch = 0; batch < batches; batch++) vault.settle(false)
  },
  calls() {
    const counted = calls
    calls = 0
    return counted
  },
})
