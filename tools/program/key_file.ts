/** Reads Ed25519 keys of an operator from files: a seed as 32 bytes or 64 hex digits, or the array of `solana-keygen`. */
import { readFileSync } from 'node:fs'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'

/** 32-byte seed. @throws Error that names the file and never its content */
export function readSeed(file: string): Uint8Array {
  const bytes = readFileSync(file)
  if (bytes.length === 32) return new Uint8Array(bytes)
  const text = bytes.toString('utf8').trim()
  const seed = text.startsWith('[') ? keygenSeed(text) : fromHex(text, 32)
  if (seed === undefined) throw new Error(`${file} holds neither a seed nor a key of solana-keygen`)
  return seed
}

/** Seed and public key as 64 numbers; undefined when they do not belong together. */
function keygenSeed(text: string): Uint8Array | undefined {
  let numbers: unknown
  try {
    numbers = JSON.parse(text)
  } catch {
    return undefined
  }
  const isByte = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255
  if (!Array.isArray(numbers) || numbers.length !== 64 || !numbers.every(isByte)) return undefined
  const bytes = Uint8Array.from(numbers as number[])
  const seed = bytes.slice(0, 32)
  return equalBytes(publicKeyOf(seed), bytes.subarray(32)) ? seed : undefined
}
