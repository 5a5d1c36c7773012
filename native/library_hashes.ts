/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': 'febd6e7cafdc3e1cd87686185556ead9d8fe3307c72f5730109d21605c2a94b0',
  'ed25519_avx512.so': 'e276f4e41bcf62590939f1a8231b8272f84e0f77e1f5acbac1293d5b39909a43',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
