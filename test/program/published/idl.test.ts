/** The interface file is the one that the layouts give, and a foreign decoder reads by it what the program wrote and ran. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
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

test('the file is what the layouts give', () => expect(TEXT).toBe(idlText()))

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
