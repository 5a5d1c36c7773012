/** Describes the head of an append-only log of statements about places (attestation.md "Location"); `rfc6962_tree.ts` proves it. */
import { domain, fixed, struct, u64 } from '../codec'

const LOG_HEAD = struct({
  domain: domain('tacit/loc-log/1'),
  /** Number of statements. */
  size: u64,
  /** Root of the tree over them. */
  root: fixed(32),
})
export const LOG_HEAD_BYTES = LOG_HEAD.size!
export const { encode: encodeLogHead, decode: decodeLogHead } = LOG_HEAD
