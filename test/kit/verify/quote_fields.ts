/** Where every field of a version 4 quote lies, to damage each of them once. */

/** Header and TD report, absolute offsets (Intel "TDX DCAP Quoting Library API", appendix A.3). */
const FIXED: readonly [field: string, at: number, width: number][] = [
  ['version', 0, 2],
  ['attestation key type', 2, 2],
  ['tee type', 4, 4],
  ['reserved', 8, 4],
  ['qe vendor', 12, 16],
  ['user data', 28, 20],
  ['tee_tcb_svn', 48, 16],
  ['mr_seam', 64, 48],
  ['mr_signer_seam', 112, 48],
  ['seam_attributes', 160, 8],
  ['td_attributes', 168, 8],
  ['xfam', 176, 8],
  ['mr_td', 184, 48],
  ['mr_config_id', 232, 48],
  ['mr_owner', 280, 48],
  ['mr_owner_config', 328, 48],
  ['rtmr0', 376, 48],
  ['rtmr1', 424, 48],
  ['rtmr2', 472, 48],
  ['rtmr3', 520, 48],
  ['report_data', 568, 64],
  ['signature data length', 632, 4],
  ['signature r', 636, 32],
  ['signature s', 668, 32],
  ['attestation key x', 700, 32],
  ['attestation key y', 732, 32],
  ['certification type', 764, 2],
  ['certification length', 766, 4],
  ['qe report', 770, 384],
  ['qe report signature', 1154, 64],
  ['qe auth data length', 1218, 2],
  ['qe auth data', 1220, 32],
  ['inner certification type', 1252, 2],
  ['inner certification length', 1254, 4],
]
const CHAIN_AT = 1258
const CHAIN_STEP = 97

/** The quote with one bit flipped, at the first, middle and last byte of each field and all along the PCK chain. */
export function* fieldFlips(quote: Uint8Array): Generator<{ field: string; flipped: Uint8Array }> {
  for (const [field, at, width] of FIXED)
    for (const offset of new Set([0, width >> 1, width - 1]))
      yield { field: `${field}+${offset}`, flipped: flip(quote, at + offset) }
  const end = 636 + new DataView(quote.buffer, quote.byteOffset).getUint32(632, true)
  for (let at = CHAIN_AT; at < end - 1; at += CHAIN_STEP) {
    const flipped = flip(quote, at)
    // Line ends of the PEM text carry nothing: two spellings of one chain are one chain.
    if (quote[at] !== 0x0a) yield { field: `pck chain+${at - CHAIN_AT}`, flipped }
  }
  yield { field: 'byte behind the quote', flipped: flip(quote, quote.length - 1) }
}

function flip(quote: Uint8Array, at: number): Uint8Array {
  const flipped = quote.slice()
  flipped[at]! ^= 1
  return flipped
}
