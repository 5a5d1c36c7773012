/** Prints the demo's numbered chapters and facts in columns, and stops the story at the first failed check. */

let chapter_number = 0

export function chapter(title: string): void {
  chapter_number++
  console.log(`\n${chapter_number}. ${title}`)
}

export function fact(label: string, value: string | number): void {
  console.log(`   ${label.padEnd(34)} ${value}`)
}

/** A promise of the venue that did not hold. */
export class DemoFailed extends Error {}

/** Prints the check with its evidence. @throws DemoFailed when it does not hold. */
export function check(holds: boolean, what: string, evidence = ''): void {
  console.log(`   [${holds ? 'ok' : 'FAILED'}] ${what}${evidence === '' ? '' : `  (${evidence})`}`)
  if (!holds) throw new DemoFailed(what)
}

/** Base units as a decimal text. */
export function tokens(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, -decimals)
  const part = digits.slice(-decimals).replace(/0+$/, '')
  return part === '' ? whole : `${whole}.${part}`
}

/** First and last eight characters. */
export function short(text: string): string {
  return text.length <= 20 ? text : `${text.slice(0, 8)}...${text.slice(-8)}`
}
