/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */

export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'ed25519_avx2.so': 'f7ab7f6f7b32c96b42f4bd3eb6ba2f63b2056431a420be3c4bf48d2a99648583',
  'ed25519_avx512.so': 'aacb4ad0b4e0032c67d484f27ed68a6da45fc5f60d7ef638f6862f589ee03870',
  'poseidon.so': '7c148c59d09610798ef7265e58ab4f25307455102dc1d061ceab6231761d3038',
}
