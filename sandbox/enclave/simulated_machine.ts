/** A simulated machine without a guest agent: quotes for epochs, and the announcements that a vault needs for it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { QuoteEpoch } from '../../engine/chain/client/chain_client'
import { publicKeyOf } from '../../protocol/sign'
import { parseQuote } from '../../protocol/tdx/quote'
import {
  epochReportData,
  type OpeningFields,
  openAttestedEpochInstructions,
  platformOf,
  quotedFields,
} from '../../protocol/vault/epochs'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { type Announcement, announcementsOf } from '../../tools/program/announcements_of'
import { issueAuthorities, signQuote, startQuotingEnclave } from './authorities'
import { loadKeys, measureBoot } from './machine'

type Opened = Omit<OpeningFields, 'compose_hash'> & { program: Uint8Array; settlement_signer: Uint8Array }

export type SimulatedMachine = {
  authority_seed: Uint8Array
  /** Makes an epoch with its quotes possible. */
  announced: Announcement[]
  /** Its certificates, as `register_platform` takes them. */
  platform: ReturnType<typeof platformOf>
  /** Both instructions of an opening, with a quote for it. `venue`: id of the resulting generation. */
  opening: (fields: Opened, venue: Uint8Array) => [VaultInstruction, VaultInstruction]
  /** Of a boot with this settlement key. */
  quoteEpoch: (settlement_seed: Uint8Array) => QuoteEpoch
}

/** Runs the build with this compose hash, 32 bytes; its keys live as long as the object. */
export function simulatedMachine(compose_hash: Uint8Array): SimulatedMachine {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-machine-'))
  const keys = loadKeys(folder, compose_hash)
  const authorities = issueAuthorities(folder, keys, Date.now())
  rmSync(folder, { recursive: true })
  const enclave = startQuotingEnclave(authorities, keys.pck)
  const { registers, stripped_log: event_log } = measureBoot(keys.app_id, compose_hash, keys.instance_id)
  const quoteOver = (report_data: Uint8Array) => {
    const facts = { registers, compose_hash, report_data, debug: false, out_of_date: false }
    return { parsed: parseQuote(signQuote(enclave, facts)), event_log }
  }
  const authority_seed = crypto.getRandomValues(new Uint8Array(32))
  const authority_signer = publicKeyOf(authority_seed)
  const { parsed } = quoteOver(new Uint8Array(64))
  return {
    authority_seed,
    announced: announcementsOf(parsed, event_log, authority_signer),
    platform: platformOf(parsed.pck_chain),
    opening(fields, venue) {
      const { parsed: quote } = quoteOver(epochReportData({ ...fields, venue }))
      const machine = { authority_signer, compose_hash }
      return openAttestedEpochInstructions({ ...quotedFields(quote, event_log), ...fields, ...machine })
    },
    quoteEpoch: (settlement_seed) => async (bound) =>
      quoteOver(epochReportData({ ...bound, settlement_signer: publicKeyOf(settlement_seed) })),
  }
}
