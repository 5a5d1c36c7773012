/** Reads the one relocatable BPF object the compiler makes (ELF64 little-endian, System V gABI). */

export type Section = {
  name: string
  type: number
  flags: number
  /** Bytes in the file; empty for sections without content. */
  bytes: Uint8Array
  size: number
  align: number
  link: number
  info: number
}

type ObjectSymbol = { name: string; section: number; value: number; type: number }

/** A relocation against `section` at byte `at` naming symbol `symbol`. */
export type Relocation = { section: number; at: number; type: number; symbol: number }

export type ObjectFile = { sections: Section[]; symbols: ObjectSymbol[]; relocations: Relocation[] }

const ET_REL = 1
const EM_BPF = 247
const SHT = { symtab: 2, rela: 4, nobits: 8, rel: 9 } as const
const HEADER_BYTES = 64
const SYMBOL_BYTES = 24
const REL_BYTES = 16

export const SHF = { write: 1, alloc: 2, exec: 4, strings: 0x20 } as const
export const STT_SECTION = 3

/** The toolchain's files are small: every u64 in them is exact as a number. */
function u64(view: DataView, at: number): number {
  const value = Number(view.getBigUint64(at, true))
  if (!Number.isSafeInteger(value)) throw new Error('object file: number too large')
  return value
}

function text(bytes: Uint8Array, at: number): string {
  const end = bytes.indexOf(0, at)
  return new TextDecoder().decode(bytes.subarray(at, end === -1 ? bytes.length : end))
}

function readSections(file: Uint8Array, view: DataView): Section[] {
  const [offset, count, names] = [u64(view, 40), view.getUint16(60, true), view.getUint16(62, true)]
  const headers = Array.from({ length: count }, (_, index) => offset + index * HEADER_BYTES)
  const sections = headers.map((at) => {
    const [type, start, size] = [view.getUint32(at + 4, true), u64(view, at + 24), u64(view, at + 32)]
    return {
      name: '',
      type,
      flags: u64(view, at + 8),
      bytes: type === SHT.nobits ? new Uint8Array() : file.slice(start, start + size),
      size,
      align: u64(view, at + 48),
      link: view.getUint32(at + 40, true),
      info: view.getUint32(at + 44, true),
    }
  })
  const strings = sections[names]
  if (strings === undefined) throw new Error('object file: no section names')
  return sections.map((section, index) => ({
    ...section,
    name: text(strings.bytes, view.getUint32(headers[index]!, true)),
  }))
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

function readSymbols(sections: Section[]): ObjectSymbol[] {
  const table = sections.find(({ type }) => type === SHT.symtab)
  const names = table && sections[table.link]
  if (table === undefined || names === undefined) throw new Error('object file: no symbols')
  const view = viewOf(table.bytes)
  return Array.from({ length: table.size / SYMBOL_BYTES }, (_, index) => {
    const at = index * SYMBOL_BYTES
    return {
      name: text(names.bytes, view.getUint32(at, true)),
      type: view.getUint8(at + 4) & 15,
      section: view.getUint16(at + 6, true),
      value: u64(view, at + 8),
    }
  })
}

function readRelocations(sections: Section[]): Relocation[] {
  return sections.flatMap((table) => {
    if (table.type === SHT.rela) throw new Error(`object file: ${table.name} has explicit addends`)
    if (table.type !== SHT.rel) return []
    const view = viewOf(table.bytes)
    return Array.from({ length: table.size / REL_BYTES }, (_, index) => ({
      section: table.info,
      at: u64(view, index * REL_BYTES),
      type: view.getUint32(index * REL_BYTES + 8, true),
      symbol: view.getUint32(index * REL_BYTES + 12, true),
    }))
  })
}

/** @throws when the file is not a relocatable little-endian BPF object. */
export function readObjectFile(file: Uint8Array): ObjectFile {
  const view = viewOf(file)
  const magic = [0x7f, 0x45, 0x4c, 0x46, 2, 1]
  if (!magic.every((byte, at) => file[at] === byte)) throw new Error('object file: not ELF64 little-endian')
  if (view.getUint16(16, true) !== ET_REL || view.getUint16(18, true) !== EM_BPF)
    throw new Error('object file: not a relocatable BPF object')
  const sections = readSections(file, view)
  return { sections, symbols: readSymbols(sections), relocations: readRelocations(sections) }
}
