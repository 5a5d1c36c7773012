/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': 'ee63c48df0d7afa336fd0cc4517918f79a58afef5e7eb30fdae6dc0b4f939459',
  'ed25519_avx512.so': 'c889719e1cd41d5bed3ae0873b00fc710cca69166528224d0c82f0e8a8466591',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
