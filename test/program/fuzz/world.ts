/** The fuzzer's world: three vaults' programs on one chain, mints, notes and keys, and separate trees. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { venueId } from '../../../protocol/bodies/statements'
import { concatBytes, toHex } from '../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'
import {
  type ConfigAccount,
  decodeConfig,
  decodeEscapeClaim,
  decodeExitRequest,
  decodeQueue,
  type EscapeClaim,
  type ExitRequest,
  type QueueAccount,
} from '../../../protocol/vault/accounts'
import {
  escapeClaimAddress,
  exitRequestAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultAddresses,
} from '../../../protocol/vault/addresses'
import { INSTRUCTIONS_SYSVAR, SECP256R1_PRECOMPILE } from '../../../protocol/vault/epochs'
import { developmentChain, PlatformKey } from '../../kit/vault/development_chain'
import { QuotingMachine } from '../../kit/vault/quoting_machine'
import { type MintFields, mintBytes, type TokenFields, tokenBytes } from '../../kit/vault/vault_chain'
import { FORWARDER, FORWARDER_SO } from '../forwarder'
import { type Appended, type Clock, Ledger, type Report } from './judge/call'
import { RawChain, type Witness } from './raw_chain'

export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0 || 1
  }

  /** An unsigned 32-bit number (xorshift32). */
  word(): number {
    this.#state ^= this.#state << 13
    this.#state ^= this.#state >>> 17
    this.#state ^= this.#state << 5
    return this.#state >>> 0
  }

  /** An integer from 0 to `bound` - 1. */
  below(bound: number): number {
    return this.word() % bound
  }

  /** True once in `times`. */
  oneIn(times: number): boolean {
    return this.below(times) === 0
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from')
    return items[this.below(items.length)]!
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.word() & 0xff)
  }

  /** A field element that is not zero. */
  element(): Uint8Array {
    const bytes = this.bytes(32)
    bytes[0]! &= 0x1f
    return bytes
  }
}

/** The machine of the fuzzer's worlds. Only its signatures are genuine: its certificates, and the quotes that it issued. */

export const MACHINE = new QuotingMachine()
/** Certificates of the machine: the one that quotes, and a second one. */
export const CERTIFICATES = [
  MACHINE.machine.chain,
  developmentChain({}, {}, new PlatformKey('second certificate')),
]

/** Report data (hex) by the evidence that carries it. */
const issued = new Map<string, string>()

/** Bytes of an opening behind its auth data and before its log. */
const OPENING_BYTES = 217
const SIGNED_AT = 613

/** Where the fields of venue and journal begin in an opening's data; its length where there are none. */
export function openingAt(data: Uint8Array): number {
  const auth_at = SIGNED_AT + data[611]! + 256 * data[612]!
  const at = auth_at + 1 + data[auth_at]!
  return Number.isNaN(at) || at + OPENING_BYTES > data.length ? data.length : at
}

/** Statements of hardware and log in an opening's data. */
function evidenceIn(data: Uint8Array): string {
  const at = openingAt(data)
  return toHex(concatBytes(sha256(data.slice(0, at)), sha256(data.slice(at + OPENING_BYTES))))
}

export const issue = (data: Uint8Array, report_data: Uint8Array): void =>
  void issued.set(evidenceIn(data), toHex(report_data))

export const isIssued = (data: Uint8Array, report_data: Uint8Array): boolean =>
  issued.get(evidenceIn(data)) === toHex(report_data)

export type WorldMint = { mint: Uint8Array; token_program: Uint8Array }
export type Note = WorldMint & {
  form: 'deposit' | 'settlement'
  amount: bigint
  blinding: Uint8Array
  owner: Uint8Array
  leaf_index: number
  commitment: Uint8Array
  nullifier: Uint8Array
}

const name32 = (name: string): Uint8Array => sha256(new TextEncoder().encode(name))
const SOL = 1_000_000_000n
export const RENT_SYSVAR = decodeBase58('SysvarRent111111111111111111111111111111111', 32)!

export class World {
  readonly chain: RawChain
  readonly ledger: Ledger
  readonly chance: Chance
  readonly program = name32('fuzzed program')
  /** Another vault, and one that is never initialized. */
  readonly other_program = name32('other program')
  readonly unborn_program = name32('unborn program')
  readonly vault = vaultAddresses(this.program)
  readonly fees = name32('fees')
  readonly sponsor = name32('sponsor')
  readonly attacker = name32('attacker')
  readonly traders = [name32('ada'), name32('bob'), name32('eve')]
  readonly officers = [name32('admin'), name32('next admin'), name32('signer'), name32('next signer')]
  readonly epoch_authority = name32('epoch authority')
  /** A program of the attacker's: it may own accounts of any content. */
  readonly foreign_program = name32('foreign program')
  /** Accounts that are not tracked: fee payers and programs. */
  readonly untracked = new Set<string>()
  readonly mints: WorldMint[] = []
  readonly notes: Note[] = []
  readonly tree = new MerkleTree()
  readonly spent = new SpentLog()
  /** Nullifiers of every batch, from batch 1. */
  readonly batches: Uint8Array[][] = []
  /** The batch that spent a nullifier (hex). */
  readonly spent_in = new Map<string, number>()
  clock: Clock = { slot: 1_000, unix_s: 1_800_000_000 }
  /** Raised by everything that may change which transactions are valid. */
  version = 0
  /** Whether it ever winds down. */
  readonly freezes: boolean
  readonly #inners = new Map<string, { owner: Uint8Array; blinding: Uint8Array }>()
  readonly #outputs = new Map<string, Omit<Note, 'leaf_index' | 'commitment' | 'nullifier' | 'form'>>()
  #names = 0

  constructor(seed: number, elf: Uint8Array, witness?: Witness) {
    this.chain = new RawChain(witness)
    this.ledger = new Ledger(this.chain)
    this.chance = new Chance(seed)
    this.freezes = this.chance.oneIn(4)
    const programs = [this.program, this.other_program, this.unborn_program]
    for (const program of programs) {
      this.chain.addProgram(program, elf)
      this.#giveUpgradeAuthority(program)
    }
    this.chain.addProgram(FORWARDER, FORWARDER_SO)
    const verifier = [SECP256R1_PRECOMPILE, INSTRUCTIONS_SYSVAR]
    const others = [
      ...verifier,
      FORWARDER,
      this.fees,
      SYSTEM_PROGRAM,
      TOKEN_PROGRAM,
      TOKEN_2022_PROGRAM,
      RENT_SYSVAR,
    ]
    const untracked = [...others, ...programs, ...programs.map((program) => this.programData(program))]
    for (const address of untracked) this.untracked.add(toHex(address))
    for (const key of this.signing_keys) this.fund(key)
    this.chain.setAccount(this.fees, { owner: SYSTEM_PROGRAM, data: new Uint8Array(), lamports: SOL << 30n })
    this.passTime(0, 0)
  }

  /** Keys that can sign: everybody's but those of derived addresses. */
  get signing_keys(): Uint8Array[] {
    return [this.sponsor, this.attacker, ...this.traders, ...this.officers, this.epoch_authority]
  }

  /** Program data: tag u32, slot u64, authority option u8, authority (32), ELF. */
  #giveUpgradeAuthority(program: Uint8Array): void {
    const address = this.programData(program)
    const account = this.ledger.onChain(address)
    account.data[12] = 1
    account.data.set(this.sponsor, 13)
    this.chain.setAccount(address, account)
  }

  /** Id of the venue in a generation. */
  venueOf(generation: number): Uint8Array {
    const { genesis_hash } = this.config()
    const { config: config_account } = this.vault
    return venueId({ genesis_hash, program_id: this.program, config_account, generation })
  }

  programData(program: Uint8Array): Uint8Array {
    return this.ledger.onChain(program).data.slice(4, 36)
  }

  fund(key: Uint8Array): void {
    this.ledger.set(key, { owner: SYSTEM_PROGRAM, data: new Uint8Array(), lamports: 1_000n * SOL })
  }

  /** True for a vault program, and where nothing says which program it was. */
  isVault(program: string | undefined): boolean {
    const vaults = [this.program, this.other_program, this.unborn_program].map(encodeBase58)
    return program === undefined || vaults.includes(program)
  }

  /** An account in the words of a finding. */
  nameOf(address: Uint8Array): string {
    const { config, tree, ring, queue } = this.vault
    const { sponsor, attacker } = this
    const names = Object.entries({ config, tree, ring, queue, sponsor, attacker })
    return names.find(([, known]) => toHex(known) === toHex(address))?.[0] ?? encodeBase58(address)
  }

  /** An unused address. */
  newAddress(): Uint8Array {
    return name32(`address ${this.#names++} of ${this.chance.word()}`)
  }

  newToken(fields: TokenFields, token_program: Uint8Array): Uint8Array {
    const address = this.newAddress()
    this.ledger.set(address, { owner: token_program, data: tokenBytes(fields), lamports: SOL })
    return address
  }

  newMint(token_program: Uint8Array, fields: MintFields = {}): WorldMint {
    const mint = this.newAddress()
    this.ledger.set(mint, { owner: token_program, data: mintBytes(fields), lamports: SOL })
    return { mint, token_program }
  }

  passTime(slots: number, seconds: number): void {
    this.clock = { slot: this.clock.slot + slots, unix_s: this.clock.unix_s + seconds }
    this.chain.setTime(this.clock)
    this.version += 1
  }

  config(): ConfigAccount {
    const config = decodeConfig(this.ledger.get(this.vault.config).data)
    if (config === undefined) throw new Error('the vault has no config')
    return config
  }

  requestOf(note: Note): ExitRequest | undefined {
    return decodeExitRequest(this.ledger.get(exitRequestAddress(this.program, note.nullifier)).data)
  }

  claimOf(note: Note): EscapeClaim | undefined {
    return decodeEscapeClaim(this.ledger.get(escapeClaimAddress(this.program, note.nullifier)).data)
  }

  /** Notes whose tokens are still liabilities. */
  unspent(): Note[] {
    return this.notes.filter((note) => !this.isSpent(note))
  }

  isSpent({ nullifier }: Note): boolean {
    return this.spent_in.has(toHex(nullifier))
  }

  queue(): QueueAccount {
    const queue = decodeQueue(this.ledger.get(this.vault.queue).data)
    if (queue === undefined) throw new Error('the vault has no queue')
    return queue
  }

  /** The inner hash of a note to come. */
  newInner(owner = this.chance.pick(this.traders)): Uint8Array {
    const blinding = this.chance.element()
    const inner = noteInner(owner, blinding)
    this.#inners.set(toHex(inner), { owner, blinding })
    return inner
  }

  /** The commitment of a settlement output to come. */
  newOutput(mint: WorldMint, amount: bigint): Uint8Array {
    const [owner, blinding] = [this.chance.pick(this.traders), this.chance.element()]
    const note = { mint: mint.mint, amount, inner: noteInner(owner, blinding) }
    const commitment = settlementCommitment(note)
    this.#outputs.set(toHex(commitment), { ...mint, owner, blinding, amount })
    return commitment
  }

  #noteOf({ commitment, made_of }: Appended, leaf_index: number): Note | undefined {
    const output = this.#outputs.get(toHex(commitment))
    const known = made_of && this.#inners.get(toHex(made_of.inner))
    const mint = this.mints.find((one) => made_of !== undefined && toHex(one.mint) === toHex(made_of.mint))
    if (output !== undefined) {
      const nullifier = nullifierOf(commitment, output.blinding)
      return { ...output, form: 'settlement', leaf_index, commitment, nullifier }
    }
    if (known === undefined || made_of === undefined || mint === undefined) return undefined
    const again = depositCommitment({ ...made_of, leaf_index })
    const nullifier = nullifierOf(again, known.blinding)
    return {
      ...mint,
      ...known,
      form: 'deposit',
      amount: made_of.amount,
      leaf_index,
      commitment: again,
      nullifier,
    }
  }

  /** Follows the effects of a kept transaction on the fuzzed vault. */
  follow({ appended, batches, mints }: Report): void {
    for (const mint of mints) this.mints.push({ mint, token_program: this.ledger.get(mint).owner })
    for (const one of appended) {
      const note = this.#noteOf(one, this.tree.leaf_count)
      this.tree.append([one.commitment])
      if (note !== undefined) this.notes.push(note)
    }
    for (const nullifiers of batches) {
      this.batches.push(nullifiers)
      for (const nullifier of nullifiers) this.spent_in.set(toHex(nullifier), this.batches.length)
      this.spent.append([spentLogLeaf(this.batches.length, nullifiers)])
    }
  }
}
