/** Builds the `settle` instruction of a batch and estimates its compute units. */

import { getAddressDecoder } from '@solana/kit'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { decodeExitRequest, type ExitRequest } from '../../../protocol/vault/accounts'
import { exitRequestAddress } from '../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { type PayoutFields, settleInstruction } from '../../../protocol/vault/settle'
import type { Payout, SettlementPayload } from '../../ports'
import { COMPUTE_UNITS_MAX } from '../client/build_transaction'
import type { ChainClient } from '../client/chain_client'
import { readMintRecords } from '../client/read_vault'
import type { Reader } from '../client/rpc_pool'
import type { NoteTreeState } from '../watch/watch_leaves'

type Counted = Record<'nullifiers' | 'outputs' | 'payouts', readonly unknown[]>

/** Fixed cost: the path to the root, the ring and the event. */
const BASE_UNITS = 50_000
const UNITS_PER_OUTPUT = 1_200
const UNITS_PER_NULLIFIER = 100

/**
 * Compute limit: 10 to 33 % above the measured use (`program/README.md`), less if an append crosses a multiple of a high
 * power of two, because each level costs one more hash. What payouts cost depends on their destinations, so a batch with
 * payouts asks for the most that there is.
 */
export function settleUnits({ nullifiers, outputs, payouts }: Counted): number {
  if (payouts.length > 0) return COMPUTE_UNITS_MAX
  return BASE_UNITS + UNITS_PER_OUTPUT * outputs.length + UNITS_PER_NULLIFIER * nullifiers.length
}

/** The parts of a settlement that vary with each signature. */
type Citation = { epoch: number; state: NoteTreeState; seq: number; head: Uint8Array }

/** A payout refers to a mint or an exit request that is not on chain. */
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
    const { rpc, address } = this.client
    if (!this.#token_programs.has(key)) {
      const read = async (reader: Reader) =>
        (await readMintRecords({ rpc: reader, address })).map(({ record }) => [
          record.mint,
          record.token_program,
        ])
      for (const [of, program] of await rpc.agree(read, (mints) => mints.flat().map(toHex).join())) {
        this.#token_programs.set(toHex(of!), program!)
      }
    }
    const program = this.#token_programs.get(key)
    if (!program) throw new PayoutUnknown('the mint is not registered with the vault')
    return program
  }

  /** The open exit requests that the payouts serve, as a quorum shows them. */
  async #requests({ payouts }: SettlementPayload): Promise<ExitRequest[]> {
    const { rpc, vault } = this.client
    const decoder = getAddressDecoder()
    const addresses = payouts.flatMap(({ nullifier }) =>
      nullifier ? [decoder.decode(exitRequestAddress(vault.program, nullifier))] : [],
    )
    const read = async (reader: Reader) => {
      const { value } = await reader.read((endpoint, abortSignal) =>
        endpoint
          .getMultipleAccounts(addresses, { commitment: 'confirmed', encoding: 'base64' })
          .send({ abortSignal }),
      )
      return value.map((account) => account?.data[0] ?? '')
    }
    return (await rpc.agree(read, (accounts) => accounts.join())).flatMap(
      (data) => decodeExitRequest(new Uint8Array(Buffer.from(data, 'base64'))) ?? [],
    )
  }
}
