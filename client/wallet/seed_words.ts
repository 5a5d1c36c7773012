/** A seed as 24 words and back, by BIP-39: the words hold the seed itself with eight bits of checksum. */

import { entropyToMnemonic, mnemonicToEntropy } from '@scure/bip39'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { TacitError } from '../../protocol/tacit_error'

/** The words are not 24 of the list, or their checksum is wrong. */
export class NotSeedWords extends TacitError {
  override readonly name = 'NotSeedWords'
  readonly code = 'not_seed_words'
  constructor() {
    super('these are not the 24 words of a seed: compare each word and their order', {})
  }
}

/** @param seed 32 bytes */
export const wordsOfSeed = (seed: Uint8Array): string => entropyToMnemonic(seed, wordlist)

/** @param words in any case, between any spaces. @throws NotSeedWords, which never contains them */
export function seedOfWords(words: string): Uint8Array {
  let seed: Uint8Array
  try {
    seed = mnemonicToEntropy(words.trim().toLowerCase().split(/\s+/).join(' '), wordlist)
  } catch {
    throw new NotSeedWords()
  }
  if (seed.length !== 32) throw new NotSeedWords()
  return seed
}
