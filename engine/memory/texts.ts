/** Stores short texts that repeat once, reference-counted. */

type Shared = { readonly text: string; rows: number }

/** Texts that many rows refer to by number, reference-counted: the sockets of orders. */
export class SharedTexts {
  private readonly numbers = new Map<string, number>()
  /** By number; 0 = none. */
  private readonly texts: (Shared | undefined)[] = [undefined]
  private readonly free: number[] = []

  get size(): number {
    return this.numbers.size
  }

  /** Adds a reference to a text and returns its number. */
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

  /** Drops one reference. */
  drop(number: number): void {
    const shared = this.texts[number]!
    if (--shared.rows > 0) return
    this.numbers.delete(shared.text)
    this.texts[number] = undefined
    this.free.push(number)
  }
}
