/** Reads a file that was named on the command line. */
import { readFileSync } from 'node:fs'
import { Refused } from '../verify/refused'

/** @throws Refused naming the file */
export function readInput(path: string): Uint8Array {
  try {
    return new Uint8Array(readFileSync(path))
  } catch {
    throw new Refused(`${path} cannot be read`)
  }
}

/** As UTF-8. @throws Refused naming the file */
export function readInputText(path: string): string {
  return new TextDecoder().decode(readInput(path))
}
