/** Shared by tests of links: announcements that admit a machine, the judge of a peer, and a leading node's answers. */
import type { Enclave } from '../../enclave/contract'
import { encodeBase58 } from '../../protocol/base58'
import { fromAnyHex } from '../../protocol/bytes'
import { parseQuote } from '../../protocol/tdx/quote'
import type { AnnouncedEntry } from '../../protocol/vault/admin'
import { machinePolicy } from '../../sandbox/environment'
import type { LinkParts } from '../../server/links/answer_links'
import { judgePeer } from '../../server/self_check'
import { announcementsOf } from '../../tools/program/announcements_of'
import { type Machine, VENUE } from '../enclave/machine'

/** A vault's announcements that admit the machine of `enclave`. */
export async function admitting(enclave: Enclave): Promise<AnnouncedEntry[]> {
  const { quote, event_log } = await enclave.keyProof('settlement')
  return announcementsOf(parseQuote(fromAnyHex(quote)!), event_log, VENUE).map((one) => {
    const { list, value } = one
    return {
      list,
      id: 'id' in one ? one.id! : new Uint8Array(),
      value: value ?? new Uint8Array(),
      next: undefined,
    }
  })
}

/** Judges by `announced` alone and the root of the machine. */
export function judging({ agent }: Machine, announced: AnnouncedEntry[]): LinkParts['judge'] {
  const terms = { policy: machinePolicy(agent.root_pem), collect: async () => agent.collateral() }
  return (evidence) => judgePeer({ terms, announced, now_ms: Date.now() }, evidence)
}

export const LEAD = {
  epoch: 7,
  seq: 41,
  head: '00'.repeat(32),
  right_ms: 5_000,
  status: {
    ready: true,
    matching: 'running',
    settlement: 'wired',
    chain: { slot: 1, lag_ms: 2, genesis_hash: encodeBase58(VENUE) },
    enclave: 'development',
    draining: false,
    reasons: [],
  },
  unavailable: null,
  nodes: 1,
}
