/** Derives the constants of the sparse form of Poseidon from circom's own, as Rust source. */
import { FIELD_MODULUS as P } from '../protocol/field'

type Vector = bigint[]
type Matrix = bigint[][]
/** Circom's parameters of one width: round constants in order, and the mixing matrix. */
export type Parameters = { C: Vector; M: Matrix }

const FULL_ROUNDS = 8
const LIMBS = 4
const LIMB_BITS = 64n
const R = 1n << (LIMB_BITS * BigInt(LIMBS))

const residue = (value: bigint): bigint => ((value % P) + P) % P
const sum = (values: Vector): bigint => residue(values.reduce((a, b) => a + b, 0n))
const applied = (matrix: Matrix, vector: Vector): Vector =>
  matrix.map((row) => sum(row.map((value, at) => value * vector[at]!)))
const product = (a: Matrix, b: Matrix): Matrix =>
  a.map((row) => b[0]!.map((_, column) => sum(row.map((value, at) => value * b[at]![column]!))))

function inverseOf(value: bigint): bigint {
  let [a, b, x, y] = [residue(value), P, 1n, 0n]
  while (b !== 0n) [a, b, x, y] = [b, a % b, y, x - (a / b) * y]
  if (a !== 1n) throw new RangeError('zero has no inverse')
  return residue(x)
}

/** Gauss-Jordan over the field. */
function inverseMatrix(matrix: Matrix): Matrix {
  const size = matrix.length
  const rows = matrix.map((row, at) => [...row, ...row.map((_, column) => (at === column ? 1n : 0n))])
  for (let column = 0; column < size; column++) {
    const pivot = rows.findIndex((row, at) => at >= column && row[column] !== 0n)
    if (pivot === -1) throw new RangeError('the matrix is singular')
    ;[rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!]
    const scale = inverseOf(rows[column]![column]!)
    rows[column] = rows[column]!.map((value) => residue(value * scale))
    for (let at = 0; at < size; at++) {
      if (at === column) continue
      const factor = rows[at]![column]!
      rows[at] = rows[at]!.map((value, index) => residue(value - factor * rows[column]![index]!))
    }
  }
  return rows.map((row) => row.slice(size))
}

/**
 * Splits `matrix` into `sparse * block`, block = [[1, 0], [0, rest]]. A block leaves the first element alone, so it commutes
 * with a partial round's power and moves into the round before (Poseidon, eprint 2019/458, appendix B).
 */
function factored(matrix: Matrix): { row: Vector; column: Vector; block: Matrix } {
  const width = matrix.length
  const rest = inverseMatrix(matrix.slice(1).map((row) => row.slice(1)))
  const above = matrix[0]!.slice(1)
  const row = rest.map((_, column) => sum(above.map((value, at) => value * rest[at]![column]!)))
  const block = matrix.map((values, at) =>
    at === 0 ? values.map((_, column) => (column === 0 ? 1n : 0n)) : [0n, ...values.slice(1)],
  )
  return { row: [matrix[0]![0]!, ...row], column: matrix.slice(1, width).map((values) => values[0]!), block }
}

/** The fields of `Constants` in `src/permutation.rs`, before conversion to Montgomery form. */
function sparseForm({ C, M }: Parameters) {
  const width = M.length
  const rounds = C.length / width
  const partial = rounds - FULL_ROUNDS
  const constants = Array.from({ length: rounds }, (_, round) => C.slice(round * width, (round + 1) * width))
  // A partial round's power touches the first element only: the other constants pass through to the next round.
  for (let round = FULL_ROUNDS / 2; round < FULL_ROUNDS / 2 + partial; round++) {
    const passed = applied(M, [0n, ...constants[round]!.slice(1)])
    constants[round + 1] = constants[round + 1]!.map((value, at) => sum([value, passed[at]!]))
  }
  const [rows, columns]: [Matrix, Matrix] = [[], []]
  let matrix = M
  for (let round = 0; round < partial; round++) {
    const { row, column, block } = factored(matrix)
    rows.unshift(row)
    columns.unshift(column)
    matrix = product(block, M)
  }
  const half = FULL_ROUNDS / 2
  return {
    full: [...constants.slice(0, half), ...constants.slice(half + partial)],
    matrix: M,
    entry: matrix,
    first: constants.slice(half, half + partial).map((values) => values[0]!),
    row: rows,
    column: columns,
  }
}

function element(value: bigint): string {
  const limb = (at: number) => (value >> (LIMB_BITS * BigInt(at))) & ((1n << LIMB_BITS) - 1n)
  return `[${Array.from({ length: LIMBS }, (_, at) => limb(at)).join(',')}]`
}
const montgomery = (value: bigint): string => element(residue(value * R))
const list = (values: Vector): string => `[${values.map(montgomery).join(',')}]`
const table = (values: Matrix): string => `[${values.map(list).join(',\n')}]`

/** The module `constants` of the crate. */
export function constantsSource(parameters: readonly Parameters[]): string {
  const widths = parameters.map((given) => {
    const form = sparseForm(given)
    const width = given.M.length
    return [
      `pub static WIDTH_${width}: Constants<${width}, ${width - 1}, ${form.first.length}> = Constants {`,
      `full: ${table(form.full)},`,
      `matrix: ${table(form.matrix)},`,
      `entry: ${table(form.entry)},`,
      `first: ${list(form.first)},`,
      `row: ${table(form.row)},`,
      `column: ${table(form.column)},`,
      '};',
    ].join('\n')
  })
  return [
    'use crate::field::Element;',
    'use crate::permutation::Constants;',
    `pub static R_SQUARED: Element = ${element(residue(R * R))};`,
    ...widths,
  ].join('\n')
}
