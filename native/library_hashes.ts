/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': '4291e8967fa15e21c25849cee7b7ef95d8e603626baa4601ea103031c1683dbf',
  'ed25519_avx512.so': '7cf6bcb0557c87d0a2178769e84bbcb00bd04451ed1e079da30bf763d995ebe0',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
