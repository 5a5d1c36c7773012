/**
 * The program's publication: its interface file equals the layouts and decodes the program's output, and `program/AUDIT.md` is
 * complete.
 */

import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAccountData, parseInstructionData } from '@codama/dynamic-parsers'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { idlText } from '../../../program/idl'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import { tryDecode } from '../../../protocol/codec'
import { ACCOUNT_LAYOUTS } from '../../../protocol/vault/accounts'
import { INSTRUCTION_FORMS } from '../../../protocol/vault/instruction_forms'
import { makeGenesis } from '../../../sandbox/chain/genesis'
import { callRpc, withChain } from '../../kit/chain/chain_folder'
import vectors from '../../vectors/vault.json'

const PROGRAM = join(import.meta.dir, '../../../program')
const TEXT = readFileSync(join(PROGRAM, 'idl.json'), 'utf8')
const IDL = JSON.parse(TEXT)

const camel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())

/** Fields in which the foreign reading differs from the client's. */
function differences(foreign: unknown, own: unknown, at: string): string[] {
  const differs = [
    `${at}: ${JSON.stringify(foreign, (_, value) => (typeof value === 'bigint' ? `${value}` : value))}`,
  ]
  if (own === undefined || own === null) return foreign === undefined ? differs : []
  if (own instanceof Uint8Array) {
    const bytes = Array.isArray(foreign)
      ? new Uint8Array(Buffer.from(foreign[1], 'base64'))
      : decodeBase58(String(foreign), 32)
    return bytes && toHex(bytes) === toHex(own) ? [] : differs
  }
  if (typeof own === 'number' || typeof own === 'bigint')
    return BigInt(foreign as number) === BigInt(own) ? [] : differs
  if (typeof own === 'boolean') return foreign === own ? [] : differs
  if (typeof own === 'string') return typeof foreign === 'number' ? [] : differs
  if (Array.isArray(own)) {
    const values = foreign as unknown[]
    // A list to the end of the data is bytes too.
    if (values[0] === 'base64') return []
    return values.length === own.length
      ? own.flatMap((one, index) => differences(values[index], one, `${at}.${index}`))
      : differs
  }
  const { kind, ...fields } = own as Record<string, unknown>
  const members = foreign as Record<string, unknown>
  if (typeof kind === 'string' && '__kind' in members) {
    const name = camel(kind)
    if (members['__kind'] !== name[0]!.toUpperCase() + name.slice(1)) return differs
  } else if (kind !== undefined) fields['kind'] = kind
  // Lists whose counts precede them are bytes in the interface: its form has no name for them.
  if (Array.isArray(members['lists'])) {
    for (const name of ['lists', 'nullifiers', 'outputs', 'payouts']) delete fields[name]
  }
  return Object.entries(fields).flatMap(([name, value]) =>
    differences(members[camel(name)], value, `${at}.${name}`),
  )
}

/** Bytes of a vector, whose zeros at the end are cut off. */
function whole(hex: string, layout: { decode: (bytes: Uint8Array) => unknown }): Uint8Array {
  const bytes = fromAnyHex(hex)!
  for (let length = bytes.length; length < 2_000; length++) {
    const padded = new Uint8Array(length)
    padded.set(bytes)
    if (tryDecode(() => layout.decode(padded)) !== undefined) return padded
  }
  throw new Error('a vector fits its layout in no length')
}

function readInstruction(data: Uint8Array, name: keyof typeof INSTRUCTION_FORMS): string[] {
  const parsed = parseInstructionData(IDL, data)
  expect((parsed?.path.at(-1) as { name: string } | undefined)?.name).toBe(camel(name))
  return differences(parsed!.data, INSTRUCTION_FORMS[name].data.decode(data), name)
}

test('the file equals that made of the layouts', () => expect(TEXT).toBe(idlText()))

test('data, events and accounts of the vectors read alike', () => {
  for (const [name, hex] of Object.entries(vectors.instructions)) {
    const known = name as keyof typeof INSTRUCTION_FORMS
    expect(readInstruction(whole(hex as string, INSTRUCTION_FORMS[known].data), known)).toEqual([])
  }
  for (const hex of Object.values(vectors.events))
    expect(readInstruction(fromAnyHex(hex as string)!, 'emit')).toEqual([])
  for (const [name, { bytes, hex }] of Object.entries(vectors.accounts)) {
    const kind = name.replace(/^(frozen|attested)_/, '')
    const data = new Uint8Array(bytes)
    data.set(fromAnyHex(hex)!)
    const parsed = parseAccountData(IDL, data)
    expect((parsed?.path.at(-1) as { name: string } | undefined)?.name).toBe(camel(kind))
    const layout = ACCOUNT_LAYOUTS[kind as keyof typeof ACCOUNT_LAYOUTS]
    expect(differences(parsed!.data, layout.decode(data), name)).toEqual([])
  }
})

test('transactions that landed read by the interface', async () => {
  await withChain({ slot_ms: 0 }, async (chain) => {
    const program_path = join(PROGRAM, 'vault.so')
    const id = await makeGenesis(chain, { program_path })
    const program = encodeBase58(id)
    const config = { encoding: 'base64', maxSupportedTransactionVersion: 1 }
    const rows = await callRpc<{ signature: string }[]>(chain, 'getSignaturesForAddress', [program])
    const names: string[] = []
    for (const { signature } of rows.reverse()) {
      const found = await callRpc<{ transaction: [string] }>(chain, 'getTransaction', [signature, config])
      const bytes = new Uint8Array(Buffer.from(found.transaction[0], 'base64'))
      for (const instruction of transactionInstructions(bytes)) {
        if (instruction.program !== program) continue
        const name = instruction.data[0] === 0 ? 'initialize' : 'register_mint'
        expect(readInstruction(instruction.data, name)).toEqual([])
        names.push(name)
      }
    }
    expect(names).toEqual(['initialize', 'register_mint', 'register_mint', 'register_mint'])
  })
})

const SOURCES = join(import.meta.dir, '../../../program/src')
const AUDIT = readFileSync(join(SOURCES, '../AUDIT.md'), 'utf8')
const NAMES = Object.keys(INSTRUCTION_FORMS)
const ITEMS = ['signer', 'owner', 'address', 'type', 'alias', 'bump', 'writable', 'program']

const section = (heading: string): string => {
  const [, text] = AUDIT.split(`\n## ${heading}\n`)
  return text!.split('\n## ')[0]!
}
/** Cells of each row of a table, without its head; a `|` inside code belongs to its cell. */
const rowsOf = (text: string): string[][] =>
  [...text.matchAll(/^\| (.*) \|$/gm)]
    .map(([, row]) => row!.replace(/`[^`]*`/g, (code) => code.replaceAll('|', '\0')))
    .map((row) => row.split(' | ').map((cell) => cell.replaceAll('\0', '|').trim()))
    .slice(1)
const quotesOf = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, quote]) => quote!)

/** Titles of the tests of a file, and the cases of a table of them. */
const titlesOf = (source: string): string =>
  [...source.matchAll(/\b(?:test|describe)[^'"`\n]*\(\s*(['"`])(.*?)\1|^ {2}(\w+: \[)/gm)]
    .map(([, , title, entry]) => title ?? entry)
    .join('\n')

/** The quotes `file: text` whose file lacks the text, or has no test of that title. */
function untrue(quotes: string[]): string[] {
  return quotes.filter((quote) => {
    const [, file, text] = /^(\S+\.(?:rs|test\.ts)): (.*)$/.exec(quote) ?? []
    if (file === undefined) return true
    const path = file.endsWith('.rs') ? join(SOURCES, file) : join(import.meta.dir, '..', file)
    const source = existsSync(path) ? readFileSync(path, 'utf8') : ''
    return !(file.endsWith('.rs') ? source : titlesOf(source)).includes(text!)
  })
}

const kinds = rowsOf(section('Kinds of accounts'))

test('each kind of account has an answer to each item', () => {
  expect(AUDIT).toContain(`| kind | function | ${ITEMS.join(' | ')} |`)
  for (const [name, ...cells] of kinds) {
    expect([name, cells.length]).toEqual([name, ITEMS.length + 1])
    expect(cells.filter((cell) => cell === '')).toEqual([])
  }
})

test('each instruction is there with its accounts in order, and its file begins each check as quoted', () => {
  const parts = section('Instructions and accounts').split('\n### ').slice(1)
  expect(parts.map((part) => part.split('\n')[0]!)).toEqual(NAMES)
  for (const [at, { accounts, more = {} }] of Object.values(INSTRUCTION_FORMS).entries()) {
    const part = parts[at]!
    const [name, head] = part.split('\n') as [string, string]
    const rows = rowsOf(part)
    const behind = Object.entries(more).flatMap(([each, roles]) =>
      Object.keys(roles).map((role) => `${each}: ${role}`),
    )
    expect([name, rows.map(([account]) => account!)]).toEqual([name, [...Object.keys(accounts), ...behind]])
    const [file, ...tests] = quotesOf(head)
    expect([name, tests.length > 0]).toEqual([name, true])
    const source = readFileSync(join(SOURCES, file!), 'utf8')
    for (const [account, kind, quote] of rows) {
      expect(kinds.map(([known]) => known!)).toContain(kind!)
      const [text] = quotesOf(quote!)
      expect([name, account, source.includes(text!)]).toEqual([name, account, true])
    }
  }
})

test('each item about instructions speaks of every instruction', () => {
  for (const [item, , settled, concerns, others] of rowsOf(section('Items about instructions'))) {
    expect(quotesOf(settled!).length).toBeGreaterThan(0)
    const named = concerns === 'all' ? NAMES : concerns!.split(', ')
    expect([item, named.filter((name) => !NAMES.includes(name))]).toEqual([item, []])
    expect([item, named.length === NAMES.length || others !== 'none']).toEqual([item, true])
  }
})

test('each quoted text is in its file', () => {
  const quotes = quotesOf(AUDIT).filter((quote) => /^\S+\.(rs|test\.ts): /.test(quote))
  expect(quotes.length).toBeGreaterThan(150)
  expect(untrue(quotes)).toEqual([])
  const tests = rowsOf(section('Items about instructions')).map((row) => quotesOf(row.at(-1)!))
  expect(tests.filter((named) => named.length === 0)).toEqual([])
  for (const named of tests) expect(untrue(named)).toEqual([])
})
