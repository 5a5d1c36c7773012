/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': '8423df2bdce733777b6e6736d6d3b999d6253a92aed79963b3d607a4c9209161',
  'ed25519_avx512.so': 'ecd001478b83d6df0d91fe028fcac81b442f6ff201b7be18224d9eb5bfb9bea6',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
