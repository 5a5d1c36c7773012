/** Stores short texts: shared ones that are reference-counted, and a cache with a total of characters. */

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

/** Caches values up to a total of characters and evicts the least recently used first. */
export class LruTexts<V> {
  private readonly kept = new Map<string, { value: V; characters: number }>()
  private characters = 0
  /** Successive reads often are of one entry. */
  private newest: { value: V } | undefined

  constructor(private readonly characters_max: number) {}

  get(name: string): V | undefined {
    const entry = this.kept.get(name)
    if (entry === undefined) return undefined
    if (entry === this.newest) return entry.value
    this.kept.delete(name)
    this.kept.set(name, entry)
    this.newest = entry
    return entry.value
  }

  set(name: string, value: V, characters: number): void {
    this.delete(name)
    if (characters > this.characters_max) return
    this.kept.set(name, { value, characters })
    this.newest = undefined
    this.characters += characters
    for (const oldest of this.kept.keys()) {
      if (this.characters <= this.characters_max) return
      this.delete(oldest)
    }
  }

  delete(name: string): void {
    const entry = this.kept.get(name)
    if (entry === undefined) return
    this.kept.delete(name)
    this.characters -= entry.characters
  }

  clear(): void {
    this.kept.clear()
    this.characters = 0
  }
}
