/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': '32ebfeb477dcaf99c8d8e54bbc0dffd0a9bd3b65989557969b9496a8cdc1f0e3',
  'ed25519_avx512.so': 'a07abd2aa07a9a695e5f80155cedbc0f5e7d4de651f5e4ff5a8922bda443009b',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
