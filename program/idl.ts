/** Writes `program/idl.json`, the program's interface in the Codama form, from the layouts that the client encodes with. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toHex } from '../protocol/bytes'
import type { Shape } from '../protocol/codec'
import { ACCOUNT_LAYOUTS } from '../protocol/vault/accounts'
import { VAULT_ERRORS } from '../protocol/vault/errors'
import type { InstructionForm } from '../protocol/vault/instruction'
import { INSTRUCTION_FORMS } from '../protocol/vault/instruction_forms'

type Node = { kind: string; [field: string]: unknown }
const node = (kind: string, fields: object = {}): Node => ({ kind, ...fields })

/** 32-byte fields that are addresses; all other fixed bytes are hashes, field elements or zeros. */
const ADDRESSES = new Set(
  `admin settlement_signer key mint destination depositor refuser challenger owner payer bond_payer token_program
  vault_token tree ring queue`.split(/\s+/),
)

const camel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
const number = (bytes: number): Node => node('numberTypeNode', { format: `u${8 * bytes}`, endian: 'le' })
const fixed = (size: number): Node => node('fixedSizeTypeNode', { size, type: node('bytesTypeNode') })
const bytesValue = (value: Uint8Array): Node =>
  node('bytesValueNode', { encoding: 'base16', data: value.some((byte) => byte !== 0) ? toHex(value) : '' })

function countOf(count: number | Shape | undefined): Node {
  if (typeof count === 'number') return node('fixedCountNode', { value: count })
  return node('prefixedCountNode', { prefix: typeOf(count) })
}

/** The type of a layout; a part that only code can read is the rest of the bytes. */
function typeOf(shape: Shape | undefined, name = ''): Node {
  if (shape === undefined) return node('bytesTypeNode')
  switch (shape.kind) {
    case 'uint':
      return number(shape.bytes)
    case 'bool':
      return node('booleanTypeNode', { size: number(1) })
    case 'bytes':
      return shape.bytes === 32 && ADDRESSES.has(name) ? node('publicKeyTypeNode') : fixed(shape.bytes)
    case 'sized':
      return node('sizePrefixTypeNode', { type: node('bytesTypeNode'), prefix: typeOf(shape.count) })
    case 'constant':
      return fixed(shape.value.length)
    case 'words':
      return node('enumTypeNode', {
        size: number(1),
        variants: shape.words.map((word, at) =>
          node('enumEmptyVariantTypeNode', { name: camel(word), discriminator: at + shape.first }),
        ),
      })
    case 'array':
      return node('arrayTypeNode', { item: typeOf(shape.of), count: countOf(shape.count) })
    case 'struct':
      return node('structTypeNode', { fields: fieldsOf('structFieldTypeNode', shape) })
    case 'union': {
      const variants = [...shape.layouts].map(([word, layout]) =>
        node('enumStructVariantTypeNode', { name: camel(word), struct: typeOf(layout) }),
      )
      // Variants count from 0: readers ignore a discriminator of variants with fields.
      const unused = Array.from({ length: shape.first }, (_, at) =>
        node('enumEmptyVariantTypeNode', { name: `unused${at}` }),
      )
      return node('enumTypeNode', { size: number(1), variants: [...unused, ...variants] })
    }
  }
}

/** Fields with their constants as default values. */
function fieldsOf(kind: string, shape: Shape | undefined): Node[] {
  if (shape?.kind !== 'struct') throw new Error('a layout at the top is no struct')
  return [...shape.fields].map(([name, field]) => {
    const constant = field?.kind === 'constant' ? field.value : undefined
    const value = constant && { defaultValue: bytesValue(constant), defaultValueStrategy: 'omitted' }
    return node(kind, { name: camel(name), docs: [], type: typeOf(field, name), ...value })
  })
}

/** The constant that a layout begins with distinguishes it from every other. */
function discriminatorsOf(shape: Shape | undefined): Node[] {
  const [first] = shape?.kind === 'struct' ? [...shape.fields.values()] : []
  if (first?.kind === 'struct') return discriminatorsOf(first)
  if (first?.kind !== 'constant') throw new Error('a layout does not begin with a constant')
  const constant = node('constantValueNode', {
    type: fixed(first.value.length),
    value: node('bytesValueNode', { encoding: 'base16', data: toHex(first.value) }),
  })
  return [node('constantDiscriminatorNode', { offset: 0, constant })]
}

function instructionOf(name: string, { data, accounts, more }: InstructionForm): Node {
  const behind = Object.entries(more ?? {}).map(
    ([each, roles]) => `${each}: ${Object.keys(roles).join(', ')}`,
  )
  return node('instructionNode', {
    name: camel(name),
    docs: behind.length > 0 ? [`Further accounts, for each ${behind.join('; for each ')}.`] : [],
    optionalAccountStrategy: 'omitted',
    accounts: Object.entries(accounts).map(([account, role]) =>
      node('instructionAccountNode', {
        name: camel(account),
        isSigner: role.startsWith('s'),
        isWritable: role.endsWith('w'),
        isOptional: false,
        docs: [],
      }),
    ),
    arguments: fieldsOf('instructionArgumentNode', data.shape),
    discriminators: discriminatorsOf(data.shape),
  })
}

/** The interface as a value of JSON. Each deployment has its own address, so the one in it is a placeholder. */
function makeIdl(): Node {
  const program = node('programNode', {
    name: 'tacitVault',
    publicKey: '11111111111111111111111111111111',
    version: '2.0.0',
    docs: ['The public key is a placeholder: each venue deploys the program at an address of its own.'],
    accounts: Object.entries(ACCOUNT_LAYOUTS).map(([name, { size, shape }]) =>
      node('accountNode', {
        name: camel(name),
        docs: [],
        size,
        data: typeOf(shape),
        discriminators: discriminatorsOf(shape),
      }),
    ),
    instructions: Object.entries(INSTRUCTION_FORMS).map(([name, form]) => instructionOf(name, form)),
    definedTypes: [],
    pdas: [],
    errors: VAULT_ERRORS.map(([code, name, message]) =>
      node('errorNode', { name: camel(name), code, message, docs: [] }),
    ),
  })
  return node('rootNode', { standard: 'codama', version: '1.5.1', program, additionalPrograms: [] })
}

/** The text of `idl.json`: one line for each account, instruction and error. */
export const idlText = (): string =>
  `${JSON.stringify(makeIdl()).replace(/(?=\{"kind":"(account|instruction|error)Node")/g, '\n')}\n`

if (import.meta.main) writeFileSync(join(import.meta.dir, 'idl.json'), idlText())
