/** Builds the `settle` instruction of a batch with the epoch, head and state cited now, and its compute units. */

import { getAddressDecoder } from '@solana/kit'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { decodeExitRequest, type ExitRequest } from '../../../protocol/vault/accounts'
import { exitRequestAddress } from '../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { type PayoutFields, settleInstruction } from '../../../protocol/vault/settle'
import type { Payout, SettlementPayload } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { readMintRecords } from '../client/read_vault'
import type { NoteTreeState } from '../watch/watch_leaves'

// Compute units a settlement batch asks for when it cannot be simulated because its predecessors have not landed.

type Counted = Record<'nullifiers' | 'outputs' | 'payouts', readonly unknown[]>

/** The path to the root, the ring and the event, whatever the batch holds. */
const BASE_UNITS = 50_000
const UNITS_PER_OUTPUT = 1_200
const UNITS_PER_NULLIFIER = 100

/**
 * Between a tenth and a third above what the program uses (measured: `program/README.md`), save where an append crosses a
 * multiple of a high power of two: each level costs a hash more. Undefined for a batch with payouts: what one costs
 * depends on its destination, which only a simulation knows.
 */
export function settleUnits({ nullifiers, outputs, payouts }: Counted): number | undefined {
  if (payouts.length > 0) return undefined
  return BASE_UNITS + UNITS_PER_OUTPUT * outputs.length + UNITS_PER_NULLIFIER * nullifiers.length
}

// Builds the `settle` instruction of a batch: the immutable payload with the epoch, head and state cited now.

type Citation = { epoch: number; state: NoteTreeState; seq: number; head: Uint8Array }

/** A payout names a mint or an exit request that the chain does not have. */
class PayoutUnknown extends Error {}

export class SettleBuilder {
  /** Token program by mint, hex; a registered mint never changes. */
  readonly #token_programs = new Map<string, Uint8Array>()

  constructor(readonly client: Pick<ChainClient, 'rpc' | 'address' | 'vault' | 'signer_key'>) {}

  /** @throws PayoutUnknown, ChainUnavailable */
  async build(payload: SettlementPayload, citation: Citation): Promise<VaultInstruction> {
    const requests = payload.payouts.some(({ kind }) => kind === 'exit') ? await this.#requests(payload) : []
    const payouts: PayoutFields[] = []
    for (const payout of payload.payouts) payouts.push(await this.#payout(payout, requests))
    return settleInstruction({
      program: this.client.vault.program,
      settlement_signer: this.client.signer_key,
      epoch: citation.epoch,
      batch: payload.batch_id,
      cited_leaf_count: citation.state.leaf_count,
      cited_root: citation.state.root,
      spent_root: payload.spent_root,
      journal_seq: citation.seq,
      journal_head: citation.head,
      nullifiers: payload.nullifiers,
      outputs: payload.outputs,
      payouts,
    })
  }

  async #payout(payout: Payout, requests: ExitRequest[]): Promise<PayoutFields> {
    const { kind, mint, destination, amount, refund_inner: inner, nullifier } = payout
    const fields = { kind, mint, destination, amount, inner, token_program: await this.#tokenProgram(mint) }
    if (kind === 'withdrawal') return fields
    const request = requests.find((one) => nullifier !== undefined && equalBytes(one.nullifier, nullifier))
    if (!request) throw new PayoutUnknown('no open exit request has the nullifier of the payout')
    return { ...fields, exit: { nullifier: request.nullifier, bond_payer: request.bond_payer } }
  }

  async #tokenProgram(mint: Uint8Array): Promise<Uint8Array> {
    const key = toHex(mint)
    if (!this.#token_programs.has(key)) {
      for (const { record } of await readMintRecords(this.client)) {
        this.#token_programs.set(toHex(record.mint), record.token_program)
      }
    }
    const program = this.#token_programs.get(key)
    if (!program) throw new PayoutUnknown('the mint is not registered with the vault')
    return program
  }

  /** The open requests its exits serve. */
  async #requests({ payouts }: SettlementPayload): Promise<ExitRequest[]> {
    const { rpc, vault } = this.client
    const decoder = getAddressDecoder()
    const addresses = payouts.flatMap(({ nullifier }) =>
      nullifier ? [decoder.decode(exitRequestAddress(vault.program, nullifier))] : [],
    )
    const { value } = await rpc.read((endpoint, abortSignal) =>
      endpoint
        .getMultipleAccounts(addresses, { commitment: 'confirmed', encoding: 'base64' })
        .send({ abortSignal }),
    )
    return value.flatMap((account) => {
      const request = account && decodeExitRequest(new Uint8Array(Buffer.from(account.data[0], 'base64')))
      return request ? [request] : []
    })
  }
}
