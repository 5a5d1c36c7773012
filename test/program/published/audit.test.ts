/** `program/AUDIT.md` is complete: every instruction and account is in it, and what it quotes of sources and tests is there. */
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { INSTRUCTION_FORMS } from '../../../protocol/vault/instruction_forms'

const SOURCES = join(import.meta.dir, '../../../program/src')
const TEXT = readFileSync(join(SOURCES, '../AUDIT.md'), 'utf8')
const NAMES = Object.keys(INSTRUCTION_FORMS)
const ITEMS = ['signer', 'owner', 'address', 'type', 'alias', 'bump', 'writable', 'program']

const section = (heading: string): string => {
  const [, text] = TEXT.split(`\n## ${heading}\n`)
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
  expect(TEXT).toContain(`| kind | function | ${ITEMS.join(' | ')} |`)
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
  const quotes = quotesOf(TEXT).filter((quote) => /^\S+\.(rs|test\.ts): /.test(quote))
  expect(quotes.length).toBeGreaterThan(150)
  expect(untrue(quotes)).toEqual([])
  const tests = rowsOf(section('Items about instructions')).map((row) => quotesOf(row.at(-1)!))
  expect(tests.filter((named) => named.length === 0)).toEqual([])
  for (const named of tests) expect(untrue(named)).toEqual([])
})
