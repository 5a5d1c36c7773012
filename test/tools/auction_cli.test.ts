/** The auditor's command as a process. */
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const CLI = join(import.meta.dir, '../../client/cli/tacit.ts')

function auction(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'auction-'))
  try {
    const file = join(folder, 'cases.json')
    writeFileSync(file, text)
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, CLI, 'auction', file])
    return { exitCode, lines: stdout.toString().split('\n').filter(Boolean), error: stderr.toString() }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const own = {
  id: 'case-1',
  config: { ref: 101, bandBps: 500, rule: 'std4', slot: 50 },
  orders: [
    {
      id: 's',
      side: 'sell',
      price: 100,
      qty: '6',
      arrivalBatch: 1,
      expirySlot: 60,
      ioc: false,
      minFill: '0',
    },
    {
      id: 'b',
      side: 'buy',
      price: 101,
      qty: '9007199254740991',
      arrivalBatch: 1,
      expirySlot: 60,
      ioc: true,
      minFill: '0',
    },
    { id: 'a', side: 'buy', price: 100, qty: '7', arrivalBatch: 1, expirySlot: 49, ioc: false, minFill: '0' },
  ],
}

describe('tacit auction', () => {
  test('prints one JSON object per case, in file order, quantities as decimal strings', () => {
    const empty = { id: 'pub-1', reference: null, orders: [] }
    const { exitCode, lines } = auction(
      JSON.stringify({ external: [empty], own: [{ ...own, orders: own.orders.slice(0, 2) }] }),
    )
    expect(exitCode).toBe(0)
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { id: 'pub-1', price: null, volume: '0', surplus: '0', fills: {}, cancelled: [], resting: {} },
      {
        id: 'case-1',
        price: 101,
        volume: '6',
        surplus: '9007199254740985',
        fills: { b: '6', s: '6' },
        cancelled: ['b'],
        resting: {},
      },
    ])
  })

  test('says so where a case exceeds what the engine takes', () => {
    const [answer] = auction(JSON.stringify({ own: [own] })).lines
    expect(JSON.parse(answer!)).toEqual({ id: 'case-1', refused: 'a side exceeds 9007199254740991 lots' })
  })

  test('the file its help shows is one it answers', () => {
    const { stdout } = Bun.spawnSync([process.execPath, CLI, 'auction', '--help'])
    const shown = stdout.toString()
    const { exitCode, lines } = auction(shown.slice(shown.indexOf('{'), shown.lastIndexOf('}') + 1))
    expect(exitCode).toBe(0)
    expect(JSON.parse(lines[0]!)).toMatchObject({ id: 'one', price: 101, volume: '3', resting: { a: '2' } })
  })

  test('refuses a file it cannot read, naming the place', () => {
    const { exitCode, error, lines } = auction('{"own":[{"id":"x"}]}')
    expect({ exitCode, lines }).toEqual({ exitCode: 64, lines: [] })
    expect(error).toContain('/own/0 config')
  })
})
