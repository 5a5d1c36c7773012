/** Genuine quotes of a site's machine over registers and report data of the test's choice. */

import { fromHex } from '../../../protocol/bytes'
import { issueAuthorities } from '../../../sandbox/enclave/authorities'
import { loadKeys } from '../../../sandbox/enclave/keys'
import { signQuote, startQuotingEnclave, type TdFacts } from '../../../sandbox/enclave/sign_quote'
import { type Changes, signAnyQuote } from './sign_any_quote'
import type { Site } from './site'

export function quoteOfMachine(
  site: Pick<Site, 'machine'>,
  facts: Pick<TdFacts, 'registers' | 'report_data'>,
  changes: Changes = {},
): Uint8Array {
  const keys = loadKeys(site.machine.data_dir, new Uint8Array(32))
  const authorities = issueAuthorities(site.machine.data_dir, keys, Date.now())
  const compose_hash = fromHex(site.machine.agent.compose_hash, 32)!
  const stated = { ...facts, compose_hash, debug: false, out_of_date: false }
  const quote = signQuote(startQuotingEnclave(authorities, keys.pck), stated)
  const chain = [authorities.pck, authorities.platform_authority, authorities.root]
  return signAnyQuote(quote, { pck: keys.pck, chain }, changes)
}
