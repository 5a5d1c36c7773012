/** Caches values up to a total of characters and evicts the least recently used first. */

export class LruTexts<V> {
  private readonly kept = new Map<string, { value: V; characters: number }>()
  private characters = 0

  constructor(private readonly characters_max: number) {}

  get(name: string): V | undefined {
    const entry = this.kept.get(name)
    if (entry === undefined) return undefined
    this.kept.delete(name)
    this.kept.set(name, entry)
    return entry.value
  }

  set(name: string, value: V, characters: number): void {
    this.delete(name)
    if (characters > this.characters_max) return
    this.kept.set(name, { value, characters })
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
