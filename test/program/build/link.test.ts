/** The linker makes exactly the program the format describes and refuses everything that has no place in it. */

import { expect, test } from 'bun:test'
import { link, SHF, syscallNumber } from '../../../program/link'

type TestSection = { name: string; flags: number; bytes: Uint8Array; type?: number }
/** `section` is the place in the given list, or undefined for a name defined elsewhere. */
type TestSymbol = { name: string; section?: number; value?: number; type?: number }
type TestRelocation = { at: number; type: number; symbol: number }

const NULL_SYMBOL = 1

/** One BPF instruction: opcode, source register, immediate. */
function instruction(opcode: number, source: number, immediate: number): number[] {
  const bytes = new Uint8Array(8)
  bytes[0] = opcode
  bytes[1] = source << 4
  new DataView(bytes.buffer).setInt32(4, immediate, true)
  return [...bytes]
}

const EXIT = instruction(0x95, 0, 0)

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
function objectFile(
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

const LDDW = 0x18
const CALL = 0x85
const [ADDRESS, DISPLACEMENT] = [1, 10]
const text = (...instructions: number[][]): TestSection => ({
  name: '.text',
  flags: SHF.alloc | SHF.exec,
  bytes: Uint8Array.from(instructions.flat()),
})
const rodata: TestSection = { name: '.rodata', flags: SHF.alloc, bytes: Uint8Array.of(1, 2, 3, 4, 5) }
const entrypoint = { name: 'entrypoint', section: 0 }
const load = (offset: number): number[] => [...instruction(LDDW, 0, offset), ...instruction(0, 0, 0)]

test('syscall numbers are those of the runtime', () => {
  // Published constants of the Solana runtime.
  expect(syscallNumber('abort')).toBe(0xb6fc1a11)
  expect(syscallNumber('sol_panic_')).toBe(0x686093bb)
  expect(syscallNumber('sol_log_')).toBe(0x207559bd)
})

test('a program is two headers, read-only data at 0 and text at 2^32, and nothing else', () => {
  const { elf, map } = link(
    objectFile(
      [text(load(2), EXIT), rodata],
      [entrypoint, { name: 'table', section: 1 }],
      [{ at: 0, type: ADDRESS, symbol: 1 }],
    ),
  )
  const view = new DataView(elf.buffer)
  expect(elf.length).toBe(64 + 112 + 8 + 24)
  expect([view.getUint16(16, true), view.getUint16(18, true), view.getUint32(48, true)]).toEqual([3, 247, 3])
  expect(view.getBigUint64(24, true)).toBe(1n << 32n)
  expect(view.getUint16(60, true)).toBe(0)
  const segment = (at: number): bigint[] =>
    [0, 8, 16, 24, 32, 40].map((offset) => view.getBigUint64(at + offset, true))
  expect(segment(64).slice(1)).toEqual([176n, 0n, 0n, 8n, 8n])
  expect(segment(120).slice(1)).toEqual([184n, 1n << 32n, 1n << 32n, 24n, 24n])
  expect([...elf.slice(176, 184)]).toEqual([1, 2, 3, 4, 5, 0, 0, 0])
  expect(view.getUint32(184 + 4, true)).toBe(2)
  expect(map).toBe('000000000 table\n100000000 entrypoint\n')
})

test('a call inside is relative, a syscall is its number', () => {
  const { elf } = link(
    objectFile(
      [text(EXIT, instruction(CALL, 1, -1), instruction(CALL, 1, -1), EXIT)],
      [{ ...entrypoint, value: 8 }, { name: 'inner', section: 0, value: 0 }, { name: 'sol_memcpy_' }],
      [
        { at: 8, type: DISPLACEMENT, symbol: 1 },
        { at: 16, type: DISPLACEMENT, symbol: 2 },
      ],
    ),
  )
  const view = new DataView(elf.buffer)
  expect([view.getUint8(176 + 9), view.getInt32(176 + 12, true)]).toEqual([0x10, -2])
  expect([view.getUint8(176 + 17), view.getUint32(176 + 20, true)]).toEqual([0, syscallNumber('sol_memcpy_')])
})

const calling = (name: string): Uint8Array =>
  objectFile(
    [text(instruction(CALL, 1, -1), EXIT)],
    [entrypoint, { name }],
    [{ at: 0, type: DISPLACEMENT, symbol: 1 }],
  )

test('a syscall outside of the list does not link', () => {
  expect(() => link(calling('sol_log_'))).toThrow('sol_log_ is no allowed syscall')
  expect(() => link(calling('__multi3'))).toThrow('no allowed syscall')
  expect(() => link(calling('sol_memcpy_'))).not.toThrow()
})

test('writable data, zeroed data, strings and unknown sections do not link', () => {
  const refused: [TestSection, string][] = [
    [{ ...rodata, name: '.data', flags: SHF.alloc | SHF.write }, 'writable section .data'],
    [{ ...rodata, name: '.bss', flags: SHF.alloc | SHF.write, type: 8 }, 'writable section .bss'],
    [{ ...rodata, name: '.rodata.str1.1', flags: SHF.alloc | SHF.strings }, 'string section'],
    [{ ...rodata, name: '.init_array' }, 'unexpected section'],
    [{ ...text(EXIT), name: '.text.cold' }, 'unexpected section'],
  ]
  for (const [section, message] of refused)
    expect(() => link(objectFile([text(EXIT), section], [entrypoint]))).toThrow(message)
})

test('other relocations and addresses outside of read-only data do not link', () => {
  const linking = (type: number, offset: number, section: number) => () =>
    link(
      objectFile(
        [text(load(offset), EXIT), rodata],
        [entrypoint, { name: 'table', section }],
        [{ at: 0, type, symbol: 1 }],
      ),
    )
  expect(linking(ADDRESS, 4, 1)).not.toThrow()
  expect(linking(ADDRESS, 5, 1)).toThrow('address outside of .rodata')
  expect(linking(ADDRESS, 0, 0)).toThrow('is not read-only data')
  expect(linking(2, 0, 1)).toThrow('relocation type 2')
  expect(linking(DISPLACEMENT, 0, 1)).toThrow('relocation type 10')
})

test('a program without entrypoint and a file that is no BPF object do not link', () => {
  expect(() => link(objectFile([text(EXIT)], [{ name: 'other', section: 0 }]))).toThrow('no entrypoint')
  expect(() => link(new Uint8Array(64))).toThrow('not ELF64')
  const wrong = objectFile([text(EXIT)], [entrypoint])
  wrong[18] = 62
  expect(() => link(wrong)).toThrow('not a relocatable BPF object')
})
