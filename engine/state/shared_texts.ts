/** Texts that many rows repeat, kept once and counted: the sockets orders came in on. */

type Shared = { readonly text: string; rows: number }

export class SharedTexts {
  private readonly numbers = new Map<string, number>()
  /** By number; 0 stands for none. */
  private readonly texts: (Shared | undefined)[] = [undefined]
  private readonly free: number[] = []

  get size(): number {
    return this.numbers.size
  }

  /** The number of a text, for one row more. */
  take(text: string): number {
    const known = this.numbers.get(text)
    if (known !== undefined) {
      this.texts[known]!.rows++
      return known
    }
    const number = this.free.pop() ?? this.texts.length
    this.texts[number] = { text, rows: 1 }
    this.numbers.set(text, number)
    return number
  }

  at(number: number): string {
    return this.texts[number]!.text
  }

  /** For one row less. */
  drop(number: number): void {
    const shared = this.texts[number]!
    if (--shared.rows > 0) return
    this.numbers.delete(shared.text)
    this.texts[number] = undefined
    this.free.push(number)
  }
}
