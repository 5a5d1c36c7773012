/** The linker makes exactly the program the format describes and refuses everything that has no place in it. */
import { expect, test } from 'bun:test'
import { link } from '../../../program/link'
import { SHF } from '../../../program/object_file'
import { syscallNumber } from '../../../program/syscall_hash'
import { EXIT, instruction, objectFile, type TestSection } from './object_builder'

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
