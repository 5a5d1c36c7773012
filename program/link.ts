/**
 * Links one BPF object into an SBPFv3 program.
 *
 * SBPFv3 (anza-xyz/sbpf, strict parser): ELF header, two program headers, then read-only data at address 0 and text at
 * 2^32, contiguous, each a multiple of 8 bytes; no sections, no relocations. A syscall is a call with source 0 and
 * the name's number; a call inside the program is source 1 and relative to the next instruction. Everything that has
 * no place in that picture (writable data, other relocations, unknown names) is an error.
 */

type Section = {
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
type Relocation = { section: number; at: number; type: number; symbol: number }

type ObjectFile = { sections: Section[]; symbols: ObjectSymbol[]; relocations: Relocation[] }

const ET_REL = 1
const EM_BPF = 247
const SHT = { symtab: 2, rela: 4, nobits: 8, rel: 9 } as const
const HEADER_BYTES = 64
const SYMBOL_BYTES = 24
const REL_BYTES = 16

export const SHF = { write: 1, alloc: 2, exec: 4, strings: 0x20 } as const
const STT_SECTION = 3

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
function readObjectFile(file: Uint8Array): ObjectFile {
  const view = viewOf(file)
  const magic = [0x7f, 0x45, 0x4c, 0x46, 2, 1]
  if (!magic.every((byte, at) => file[at] === byte)) throw new Error('object file: not ELF64 little-endian')
  if (view.getUint16(16, true) !== ET_REL || view.getUint16(18, true) !== EM_BPF)
    throw new Error('object file: not a relocatable BPF object')
  const sections = readSections(file, view)
  return { sections, symbols: readSymbols(sections), relocations: readRelocations(sections) }
}

const HEADERS_BYTES = 64 + 2 * 56
const TEXT_ADDRESS = 0x1_0000_0000
const R_BPF_64_64 = 1
const R_BPF_64_32 = 10
const [LDDW, CALL] = [0x18, 0x85]

export type LinkedProgram = {
  elf: Uint8Array
  /** One line per symbol: address, name. */
  map: string
}

type Placed = { section: Section; index: number; at: number }

function refuseForeignSections(object: ObjectFile): void {
  for (const { name, flags, size } of object.sections) {
    if ((flags & SHF.alloc) === 0 || size === 0) continue
    if ((flags & SHF.write) !== 0) throw new Error(`link: writable section ${name} (${size} bytes)`)
    if ((flags & SHF.strings) !== 0) throw new Error(`link: string section ${name}`)
    if ((flags & SHF.exec) !== 0 ? name !== '.text' : !name.startsWith('.rodata'))
      throw new Error(`link: unexpected section ${name}`)
  }
}

function place(object: ObjectFile, executable: boolean): { placed: Placed[]; size: number } {
  const placed: Placed[] = []
  let end = 0
  for (const [index, section] of object.sections.entries()) {
    const wanted = (section.flags & SHF.alloc) !== 0 && ((section.flags & SHF.exec) !== 0) === executable
    if (!wanted || section.size === 0) continue
    const align = Math.max(section.align, 8)
    const at = Math.ceil(end / align) * align
    placed.push({ section, index, at })
    end = at + section.size
  }
  return { placed, size: Math.ceil(end / 8) * 8 }
}

function lay(segment: { placed: Placed[]; size: number }): Uint8Array {
  const bytes = new Uint8Array(segment.size)
  for (const { section, at } of segment.placed) bytes.set(section.bytes, at)
  return bytes
}

class Linker {
  readonly #object: ObjectFile
  readonly #rodata: { placed: Placed[]; size: number }
  readonly #text: Uint8Array
  readonly #view: DataView
  readonly #text_index: number

  constructor(object: ObjectFile) {
    refuseForeignSections(object)
    this.#object = object
    this.#rodata = place(object, false)
    const text = place(object, true)
    if (text.placed.length !== 1) throw new Error('link: exactly one text section is expected')
    this.#text_index = text.placed[0]!.index
    this.#text = lay(text)
    this.#view = new DataView(this.#text.buffer)
  }

  link(): LinkedProgram {
    for (const relocation of this.#object.relocations) this.#resolve(relocation)
    const entry = this.#object.symbols.find(({ name }) => name === 'entrypoint')
    if (entry?.section !== this.#text_index) throw new Error('link: no entrypoint')
    const [rodata, text] = [lay(this.#rodata), this.#text]
    const elf = new Uint8Array(HEADERS_BYTES + rodata.length + text.length)
    elf.set(headers(entry.value, rodata.length, text.length))
    elf.set(rodata, HEADERS_BYTES)
    elf.set(text, HEADERS_BYTES + rodata.length)
    return { elf, map: this.#map() }
  }

  #resolve(relocation: Relocation): void {
    if (relocation.section !== this.#text_index) throw new Error('link: relocation outside of text')
    const { at, type } = relocation
    const opcode = this.#text[at]
    if (type === R_BPF_64_64 && opcode === LDDW) this.#resolveAddress(relocation)
    else if (type === R_BPF_64_32 && opcode === CALL) this.#resolveCall(relocation)
    else throw new Error(`link: relocation type ${type} on opcode ${opcode} at ${at}`)
  }

  /** `lddw`: the address of read-only data, its low and high halves in two immediates. */
  #resolveAddress({ at, symbol: index }: Relocation): void {
    const symbol = this.#symbol(index)
    const home = this.#rodata.placed.find((other) => other.index === symbol.section)
    if (home === undefined) throw new Error(`link: ${symbol.name || 'a section'} is not read-only data`)
    const addend = this.#view.getUint32(at + 4, true)
    const offset = symbol.value + addend
    if (this.#view.getUint32(at + 12, true) !== 0 || offset >= home.section.size)
      throw new Error(`link: address outside of ${home.section.name}`)
    this.#view.setUint32(at + 4, home.at + offset, true)
  }

  #resolveCall({ at, symbol: index }: Relocation): void {
    const symbol = this.#symbol(index)
    if (symbol.section === 0) {
      if (!SYSCALLS.has(symbol.name)) throw new Error(`link: ${symbol.name} is no allowed syscall`)
      this.#view.setUint8(at + 1, this.#view.getUint8(at + 1) & 0x0f)
      this.#view.setUint32(at + 4, syscallNumber(symbol.name), true)
      return
    }
    if (symbol.section !== this.#text_index) throw new Error(`link: call into ${symbol.name}`)
    // The immediate counts instructions from behind the call; against a section it also carries the target.
    const addend = (this.#view.getInt32(at + 4, true) + 1) * 8
    if (symbol.type !== STT_SECTION && addend !== 0)
      throw new Error(`link: call into the middle of ${symbol.name}`)
    const target = symbol.value + addend
    if (target < 0 || target >= this.#text.length || target % 8 !== 0)
      throw new Error('link: call out of text')
    this.#view.setUint8(at + 1, 0x10)
    this.#view.setInt32(at + 4, (target - at) / 8 - 1, true)
  }

  #symbol(index: number): ObjectFile['symbols'][number] {
    const symbol = this.#object.symbols[index]
    if (symbol === undefined) throw new Error('link: relocation without symbol')
    return symbol
  }

  #map(): string {
    const lines: [number, string][] = []
    for (const { name, section, value } of this.#object.symbols) {
      const home = this.#rodata.placed.find((other) => other.index === section)
      if (name === '' || (home === undefined && section !== this.#text_index)) continue
      lines.push([home === undefined ? TEXT_ADDRESS + value : home.at + value, name])
    }
    lines.sort((a, b) => a[0] - b[0])
    return `${lines.map(([address, name]) => `${address.toString(16).padStart(9, '0')} ${name}`).join('\n')}\n`
  }
}

function headers(entry: number, rodata: number, text: number): Uint8Array {
  const bytes = new Uint8Array(HEADERS_BYTES)
  const view = new DataView(bytes.buffer)
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1])
  view.setUint16(16, 3, true)
  view.setUint16(18, 247, true)
  view.setUint32(20, 1, true)
  view.setBigUint64(24, BigInt(TEXT_ADDRESS + entry), true)
  view.setBigUint64(32, 64n, true)
  view.setUint32(48, 3, true)
  view.setUint16(52, 64, true)
  view.setUint16(54, 56, true)
  view.setUint16(56, 2, true)
  programHeader(view, 64, { flags: 4, offset: HEADERS_BYTES, address: 0, size: rodata })
  programHeader(view, 120, { flags: 1, offset: HEADERS_BYTES + rodata, address: TEXT_ADDRESS, size: text })
  return bytes
}

type Segment = { flags: number; offset: number; address: number; size: number }

function programHeader(view: DataView, at: number, { flags, offset, address, size }: Segment): void {
  view.setUint32(at, 1, true)
  view.setUint32(at + 4, flags, true)
  view.setBigUint64(at + 8, BigInt(offset), true)
  view.setBigUint64(at + 16, BigInt(address), true)
  view.setBigUint64(at + 24, BigInt(address), true)
  view.setBigUint64(at + 32, BigInt(size), true)
  view.setBigUint64(at + 40, BigInt(size), true)
}

/** Links an object file into a deployable SBPFv3 program. @throws on anything the format or our rules do not allow. */
export function link(object: Uint8Array): LinkedProgram {
  return new Linker(readObjectFile(object)).link()
}

/** Names outside this list do not link: the runtime loads unknown numbers and fails only when they are called. */
const SYSCALLS: ReadonlySet<string> = new Set([
  'abort',
  'sol_create_program_address',
  'sol_get_clock_sysvar',
  'sol_get_rent_sysvar',
  'sol_get_stack_height',
  'sol_invoke_signed_c',
  'sol_memcmp_',
  'sol_memcpy_',
  'sol_memset_',
  'sol_poseidon',
  'sol_sha256',
  'sol_try_find_program_address',
])

const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by))

function scramble(block: number): number {
  return Math.imul(rotate(Math.imul(block, 0xcc9e2d51), 15), 0x1b873593)
}

/** Murmur3, 32 bits, seed 0, of the name (anza-xyz/sbpf `hash_symbol_name`). */
export function syscallNumber(name: string): number {
  const bytes = new TextEncoder().encode(name)
  const whole = bytes.length - (bytes.length % 4)
  const view = new DataView(bytes.buffer)
  let hash = 0
  for (let at = 0; at < whole; at += 4)
    hash = (Math.imul(rotate(hash ^ scramble(view.getUint32(at, true)), 13), 5) + 0xe6546b64) | 0
  let tail = 0
  for (let at = bytes.length - 1; at >= whole; at--) tail = (tail << 8) | bytes[at]!
  if (bytes.length > whole) hash ^= scramble(tail)
  hash ^= bytes.length
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
