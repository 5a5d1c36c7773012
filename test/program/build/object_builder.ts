/** Writes small relocatable BPF objects, for the linker's tests. */

export type TestSection = { name: string; flags: number; bytes: Uint8Array; type?: number }
/** `section` is the place in the given list, or undefined for a name defined elsewhere. */
type TestSymbol = { name: string; section?: number; value?: number; type?: number }
type TestRelocation = { at: number; type: number; symbol: number }

const NULL_SYMBOL = 1

/** One BPF instruction: opcode, source register, immediate. */
export function instruction(opcode: number, source: number, immediate: number): number[] {
  const bytes = new Uint8Array(8)
  bytes[0] = opcode
  bytes[1] = source << 4
  new DataView(bytes.buffer).setInt32(4, immediate, true)
  return [...bytes]
}

export const EXIT = instruction(0x95, 0, 0)

class Strings {
  readonly bytes: number[] = [0]

  add(text: string): number {
    const at = this.bytes.length
    this.bytes.push(...new TextEncoder().encode(text), 0)
    return at
  }
}

function symbolTable(symbols: TestSymbol[], strings: Strings): Uint8Array {
  const table = new Uint8Array(24 * (symbols.length + NULL_SYMBOL))
  const view = new DataView(table.buffer)
  symbols.forEach(({ name, section, value = 0, type = 2 }, index) => {
    const at = 24 * (index + NULL_SYMBOL)
    view.setUint32(at, strings.add(name), true)
    view.setUint8(at + 4, type)
    view.setUint16(at + 6, section === undefined ? 0 : section + 1, true)
    view.setBigUint64(at + 8, BigInt(value), true)
  })
  return table
}

function relocationTable(relocations: TestRelocation[]): Uint8Array {
  const table = new Uint8Array(16 * relocations.length)
  const view = new DataView(table.buffer)
  relocations.forEach(({ at, type, symbol }, index) => {
    view.setBigUint64(16 * index, BigInt(at), true)
    view.setUint32(16 * index + 8, type, true)
    view.setUint32(16 * index + 12, symbol + NULL_SYMBOL, true)
  })
  return table
}

type Header = { name: string; type: number; flags: number; bytes: Uint8Array; link: number; info: number }

function assemble(headers: Header[], strings: Strings): Uint8Array {
  const names = headers.map(({ name }) => strings.add(name))
  headers.at(-1)!.bytes = Uint8Array.from(strings.bytes)
  const total = headers.reduce((sum, { bytes }) => sum + Math.ceil(bytes.length / 8) * 8, 64)
  const file = new Uint8Array(total + 64 * headers.length)
  const view = new DataView(file.buffer)
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1])
  view.setUint16(16, 1, true)
  view.setUint16(18, 247, true)
  view.setBigUint64(40, BigInt(total), true)
  view.setUint16(60, headers.length, true)
  view.setUint16(62, headers.length - 1, true)
  let at = 64
  headers.forEach(({ type, flags, bytes, link, info }, index) => {
    file.set(bytes, at)
    const header = total + 64 * index
    view.setUint32(header, names[index]!, true)
    view.setUint32(header + 4, type, true)
    for (const [offset, value] of [
      [8, flags],
      [24, at],
      [32, bytes.length],
      [48, 8],
    ] as const)
      view.setBigUint64(header + offset, BigInt(value), true)
    view.setUint32(header + 40, link, true)
    view.setUint32(header + 44, info, true)
    at += Math.ceil(bytes.length / 8) * 8
  })
  return file
}

/** An object of these sections; relocations are against the first one. */
export function objectFile(
  sections: TestSection[],
  symbols: TestSymbol[],
  relocations: TestRelocation[] = [],
): Uint8Array {
  const strings = new Strings()
  const empty = { flags: 0, link: 0, info: 0 }
  const last = sections.length + 3
  const headers: Header[] = [
    { ...empty, name: '', type: 0, bytes: new Uint8Array() },
    ...sections.map(({ name, flags, bytes, type = 1 }) => ({ ...empty, name, type, flags, bytes })),
    { ...empty, name: '.rel.text', type: 9, bytes: relocationTable(relocations), info: 1 },
    { ...empty, name: '.symtab', type: 2, bytes: symbolTable(symbols, strings), link: last },
    { ...empty, name: '.strtab', type: 3, bytes: new Uint8Array() },
  ]
  return assemble(headers, strings)
}
