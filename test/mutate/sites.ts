/** Lists the places of a source file where one small fault can be planted. */
import { parseSource } from '../../tools/check/parse_source'
import { isErased, lineFinder, type Node, walk } from '../../tools/check/syntax'

/** One fault: the bytes from `start` to `end` of `file` hold `was`, and `text` replaces them. */
export type Site = {
  readonly file: string
  readonly line: number
  readonly operator: string
  readonly start: number
  readonly end: number
  readonly was: string
  readonly text: string
  /** The whole lines, before and after; they name the fault in reports and in `EXPLAINED`. */
  readonly old: string
  readonly new: string
}

type Range = { readonly start: number; readonly end: number }
type Change = readonly [operator: string, range: Range, text: string]

export function sitesIn(file: string, text: string): Site[] {
  const lineOf = lineFinder(text)
  const changes = file.endsWith('.rs') ? rustChanges(text) : scriptChanges(file, text)
  return changes.flatMap(([operator, { start, end }, replacement]) => {
    const was = text.slice(start, end)
    if (was === replacement) return []
    const from = text.lastIndexOf('\n', start) + 1
    const to = text.indexOf('\n', end)
    const rest = text.slice(end, to === -1 ? text.length : to)
    const lineWith = (part: string) => `${text.slice(from, start)}${part}${rest}`.replace(/\s+/g, ' ').trim()
    const lines = { old: lineWith(was), new: lineWith(replacement) }
    return { file, line: lineOf(start), operator, start, end, was, text: replacement, ...lines }
  })
}

export function planted(source: string, { start, end, text }: Site): string {
  return source.slice(0, start) + text + source.slice(end)
}

/** Some changes end a statement early: they are no faults, because no tree holds them. */
export function parses(source: string, site: Site): boolean {
  if (site.file.endsWith('.rs')) return true
  try {
    parseSource(site.file, planted(source, site))
    return true
  } catch {
    return false
  }
}

/** Functions whose result is the same in either order of their arguments. */
const EITHER_ORDER = /^(Math\.(max|min)|plus|equalBytes)$/

const SWAPPED: Readonly<Record<string, readonly [operator: string, by: string]>> = {
  '<': ['comparison', '<='],
  '<=': ['comparison', '<'],
  '>': ['comparison', '>='],
  '>=': ['comparison', '>'],
  '===': ['comparison', '!=='],
  '!==': ['comparison', '==='],
  '==': ['comparison', '!='],
  '!=': ['comparison', '=='],
  '+': ['arithmetic', '-'],
  '-': ['arithmetic', '+'],
  '*': ['arithmetic', '+'],
  '/': ['arithmetic', '*'],
  '%': ['arithmetic', '/'],
  '+=': ['arithmetic', '-='],
  '-=': ['arithmetic', '+='],
  '&&': ['condition', '||'],
  '||': ['condition', '&&'],
}

function scriptChanges(file: string, text: string): Change[] {
  const changes: Change[] = []
  walk(parseSource(file, text).program, undefined, (node, parent, path) => {
    if (!isErased([...path, node])) changes.push(...changesOf(node, parent, text))
  })
  return changes
}

function changesOf(node: Node, parent: Node | undefined, source: string): Change[] {
  const cut = (part: unknown) => source.slice((part as Node).start, (part as Node).end)
  switch (node.type) {
    case 'BinaryExpression':
    case 'AssignmentExpression':
    case 'LogicalExpression':
      return operatorChanges(node, cut)
    case 'IfStatement':
    case 'ConditionalExpression':
    case 'WhileStatement':
      return [['negated condition', node.test as Node, `!(${cut(node.test)})`]]
    case 'UnaryExpression':
      return node.operator === '!' ? [['negated condition', node, cut(node.argument)]] : []
    case 'AwaitExpression':
      return [['await', node, cut(node.argument)]]
    case 'ExpressionStatement':
      return typeof node.directive === 'string' ? [] : [['statement', node, '{}']]
    case 'ThrowStatement':
    case 'ContinueStatement':
      return [['statement', node, '{}']]
    case 'ReturnStatement':
      return parent?.type === 'IfStatement' || node.argument === null ? [['statement', node, '{}']] : []
    case 'CatchClause':
      return [['catch', node.body as Node, '{}']]
    case 'TryStatement':
      return node.finalizer === null ? [] : [['finally', node.finalizer as Node, '{}']]
    case 'Literal':
      return literalChanges(node)
    case 'UpdateExpression': {
      const by = node.operator === '++' ? '--' : '++'
      return [['arithmetic', node, node.prefix ? by + cut(node.argument) : cut(node.argument) + by]]
    }
    case 'CallExpression':
    case 'NewExpression': {
      const [first, second] = node.arguments as Node[]
      if (second === undefined || first!.type === 'SpreadElement' || second.type === 'SpreadElement')
        return []
      if (EITHER_ORDER.test(cut(node.callee))) return []
      const between = source.slice(first!.end, second.start)
      const range = { start: first!.start, end: second.end }
      return [['arguments', range, `${cut(second)}${between}${cut(first)}`]]
    }
    default:
      return []
  }
}

function operatorChanges(node: Node, cut: (part: unknown) => string): Change[] {
  const [left, right] = [node.left as Node, node.right as Node]
  if (node.operator === '??') return [['default', node, cut(left)]]
  const swapped = SWAPPED[node.operator as string]
  if (swapped === undefined) return []
  // A sum with a text in it joins texts.
  if (/^[+]=?$/.test(node.operator as string) && /['"`]/.test(cut(left) + cut(right))) return []
  const [operator, by] = swapped
  const text = `${cut(left)} ${by} ${cut(right)}`
  // Among other `&&` and `||` the new one binds differently.
  return [[operator, node, operator === 'condition' ? `(${text})` : text]]
}

function literalChanges(node: Node): Change[] {
  const { value, bigint } = node as { value?: unknown; bigint?: string }
  if (typeof value === 'boolean') return [['constant', node, String(!value)]]
  if (typeof bigint === 'string') return [['constant', node, `${BigInt(bigint) + 1n}n`]]
  return typeof value === 'number' ? [['constant', node, String(value + 1)]] : []
}

/** Comments, texts and attributes of Rust, in which nothing is planted. */
const APART = /\/\/[^\n]*|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\.)'|#!?\[[^\n]*\]/g
const RUST: readonly [operator: string, pattern: RegExp, by: (text: string) => string][] = [
  ['operator', /(?<= )(?:<=?|>=?|==|!=|&&|\|\||[-+*/%]|[-+]=)(?= )/g, (text) => SWAPPED[text]![1]],
  ['negated condition', /(?<=\b(?:if|while) )(?!let\b)[^{}\n]+(?= \{)/g, (text) => `!(${text})`],
  // Longer ones are words of tables of hashes.
  ['constant', /(?<![\w.])(?:0x[\da-f_]{1,6}|\d[\d_]*)(?=\b|[ui]\d)/g, (text) => `(${text} + 1)`],
  ['constant', /\b(?:true|false)\b/g, (text) => (text === 'true' ? 'false' : 'true')],
  // Statements that only check, and checks that a function ends with.
  ['check', /(?<=\n *)(?:require\(|[\w.]*\.?require_\w+\()(?:[^;{}]|\{[^{}]*\})*?\)\?;(?=\n)/g, () => ''],
  ['check', /(?<=\n *)require\([^;{}]*?\)(?=\n *\})/g, () => 'Ok(())'],
  ['statement', /(?<=\n *)(?!let |return |use |pub |const |require)[a-z*][\w.*]*[^;{}\n]*;(?=\n)/g, () => ''],
  ['statement', /(?<=\n *)return [^;{}]*;(?=\n)/g, () => ''],
]

function rustChanges(source: string): Change[] {
  const masked = source.replace(APART, (text) => ' '.repeat(text.length))
  return RUST.flatMap(([operator, pattern, by]) =>
    [...masked.matchAll(pattern)].map(({ index, 0: text }): Change => {
      const range = { start: index, end: index + text.length }
      return [operator, range, by(source.slice(range.start, range.end))]
    }),
  )
}
