/** Faults that no test can notice, each by its exact place and with the reason. A report counts them apart. */

const EITHER_ORDER = 'equal bytes are equal in either order'
const FIRST_FIELD = 'the field is the first of its layout, so its offset is 0'

/** `file: old lines => new lines`, as a report prints them. */
export const EXPLAINED: Readonly<Record<string, string>> = {
  'engine/journal/frame.ts: const crc_at = body_at + u32At(bytes, next + BODY_BYTES_AT) => const crc_at = body_at + u32At(bytes, next - BODY_BYTES_AT)':
    FIRST_FIELD,
  'engine/journal/frame.ts: const bytes = u32At(plain, at + BYTES_AT) => const bytes = u32At(plain, at - BYTES_AT)':
    FIRST_FIELD,
  'engine/journal/frame.ts: readRecords(bytes.subarray(at, end + TRAILER_BYTES), 0, records) => readRecords(bytes.subarray(at, end + TRAILER_BYTES), 1, records)':
    'seqs count from 1, so every record is one from either on',
  "client/verify/tdx/genuine_quote.ts: requireThat(equalBytes(quote.qe_vendor_id, INTEL_QE_VENDOR), 'the quoting enclave is not from Intel') => requireThat(equalBytes(INTEL_QE_VENDOR, quote.qe_vendor_id), 'the quoting enclave is not from Intel')":
    EITHER_ORDER,
  'protocol/rfc6962_tree.ts: climbed !== undefined && equalBytes(climbed.left, older.root) && equalBytes(climbed.whole, newer.root) => climbed !== undefined && equalBytes(climbed.left, older.root) && equalBytes(newer.root, climbed.whole)':
    EITHER_ORDER,
  'engine/limits.ts: retry_doublings_max: 12, => retry_doublings_max: 13,':
    'the longest wait between attempts that fail is a choice: nine hours or eighteen',
  'protocol/wire/values.ts: return Object.assign(Type.String(options), { [DECODE]: { decode, usable: usable as (value: unknown) => boolean, keeps: false }, }) => return Object.assign({ [DECODE]: { decode, usable: usable as (value: unknown) => boolean, keeps: false }, }, Type.String(options))':
    'the two objects share no key, so the order in which they are joined changes nothing',
  'engine/snapshots/scrub_worker.ts: Bun.gc(true) => Bun.gc(false)':
    'what an idle thread leaves is collected later, which costs memory alone',
  'protocol/byte_stream.ts: if (to - from > CACHED_BYTES_MAX) return decodeUtf8(bytes.subarray(from, to)) => if (to - from > CACHED_BYTES_MAX) {}':
    'a cached text is the decoded one; the bound limits memory alone',
  'server/limits.ts: export const LINK_STREAM_FILL_BYTES = LINK_STREAM_BYTES_MAX / 4 => export const LINK_STREAM_FILL_BYTES = LINK_STREAM_BYTES_MAX / 5':
    'how many messages share a frame is a choice: a frame that is sent earlier costs one more',
  'engine/chain/client/vault_events.ts: if (page.length < PAGE || !before || slots.at(-1)! < window.from) return true => if (page.length < PAGE || !before || slots.at(-2)! < window.from) return true':
    'the page behind has only slots before the window, which are skipped: one read more',
  "engine/reads/public_facts.ts: if (batch_id > last) this.rows.set('landed/last', batch_id) => if (batch_id >= last) this.rows.set('landed/last', batch_id)":
    'at equality the value that is there is written again',
  'engine/history/write_tables.ts: newest.set(name, latest) => {}':
    'a row is written once per event of a batch in place of once per batch, and the last one prevails: time alone',
  'client/chain/deposit.ts: await sleep(NODE_READ_WAIT_FIRST_MS * 2 ** attempt) => await sleep(NODE_READ_WAIT_FIRST_MS * 3 ** attempt)':
    'how long a node gets until it is asked again is a choice',
  'client/audit/chain_audit.ts: equalBytes(queued.inner, other.inner) => equalBytes(other.inner, queued.inner)':
    EITHER_ORDER,
  'engine/cluster/log_entry.ts: if (tag_at < HEADER_BYTES) return undefined => if (tag_at <= HEADER_BYTES) return undefined':
    'an entry without a body decodes to none',
  'native/src/field.rs: (t[3], t[4]) = multiply_add(top, 0, 0, carry); => (t[3], t[4]) = multiply_add(top, (0 + 1), 0, carry);':
    'one of the two factors is 0, so their product is',
  'native/ed25519/lib.rs: let slot = unsafe { memory.add(u16::from_le_bytes([key[0], key[1]]) as usize % SLOTS) }; => let slot = unsafe { memory.add(u16::from_le_bytes([key[0], key[1]]) as usize / SLOTS) };':
    'a slot names its key, so fewer slots cost time alone',
  'native/src/field.rs: (_, carry) = multiply_add(t[0], q, P[0], 0); => (_, carry) = multiply_add(t[0], q, P[0], (0 + 1));':
    'q makes the low word 0, so that one more gives no carry',
  "client/cli/verify.ts: const every_s = Math.max(1, call.count('every', WATCH_VENUE_S, 6)) => const every_s = Math.max(2, call.count('every', WATCH_VENUE_S, 6))":
    'the shortest wait between two looks is a choice',
  'client/cli/tacit.ts: await hashFast() => hashFast()':
    'until the compiled hash is there the pure one gives the same hashes: time alone',
  'client/page/trade_desk.ts: this.drawing = true => {}': 'many events then draw as many times: time alone',
  'program/src/heap.rs: pub const EVENT_BYTES_MAX: usize = 10_240; => pub const EVENT_BYTES_MAX: usize = (10_240 + 1);':
    'the runtime rejects an inner instruction of one byte more, so that event fails either way',
}
