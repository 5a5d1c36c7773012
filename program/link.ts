/**
 * Links one BPF object into an SBPFv3 program.
 *
 * SBPFv3 (anza-xyz/sbpf, strict parser): ELF header, two program headers, then read-only data at address 0 and text at
 * 2^32, contiguous, each a multiple of 8 bytes; no sections, no relocations. A syscall is a call with source 0 and
 * the name's number; a call inside the program is source 1 and relative to the next instruction. Everything that has
 * no place in that picture (writable data, other relocations, unknown names) is an error.
 */
import {
  type ObjectFile,
  type Relocation,
  readObjectFile,
  type Section,
  SHF,
  STT_SECTION,
} from './object_file'

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
