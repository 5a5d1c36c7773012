/** Parses one TypeScript file with oxc and returns the facts that the rules need: imports, exports, functions, comments. */
import { type Comment, parseSync } from 'oxc-parser'
import { type Import, type ImportsFound, visitImport } from './parse_imports'
import { TEST_FOLDER } from './rules'
import { isNode, lineFinder, type Node, nameOf, patternNames, walk } from './syntax'

export type Export = {
  readonly name: string
  readonly line: number
  /** Declared here with `export`, not passed on in braces. */
  readonly declared: boolean
}
type FunctionFact = { readonly name: string; readonly line: number; readonly lines: number }

export type Source = {
  readonly file: string
  readonly text: string
  readonly program: Node
  readonly imports: readonly Import[]
  readonly exports: readonly Export[]
  readonly functions: readonly FunctionFact[]
  /** Statements outside functions that are no declarations: their first line, and the lines of all of them. */
  readonly top_level: FunctionFact
  readonly comments: readonly { readonly line: number; readonly text: string }[]
  readonly lineOf: (offset: number) => number
}

/** @throws Error when the file does not parse; tsc and Biome say it better. */
export function parseSource(file: string, text: string): Source {
  const parsed = parseSync(file, text)
  const error = parsed.errors[0]
  if (error !== undefined) throw new Error(`${file}: ${error.message}`)
  const program = parsed.program as unknown as Node
  const lineOf = lineFinder(text)
  const found: Found = { file, text, program, lineOf, imports: [], exports: [], functions: [] }
  walk(program, undefined, (node, parent, path) => visit(found, node, parent, path))
  const comments = parsed.comments.map((comment: Comment) => ({
    line: lineOf(comment.start),
    text: comment.value,
  }))
  return { ...found, top_level: topLevelOf(found), comments }
}

type Found = ImportsFound & { exports: Export[]; functions: FunctionFact[] }

function visit(found: Found, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  visitImport(found, node, parent, path)
  switch (node.type) {
    case 'ExportNamedDeclaration':
      visitNamedExport(found, node)
      break
    case 'ExportAllDeclaration':
      if (isNode(node.exported))
        found.exports.push({ name: nameOf(node.exported), line: found.lineOf(node.start), declared: false })
      break
    case 'ExportDefaultDeclaration':
      found.exports.push({ name: 'default', line: found.lineOf(node.start), declared: true })
      break
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      if (isNode(node.body)) addFunction(found, node, parent, path)
      break
    case 'StaticBlock':
      found.functions.push(factOf(found, node, 'a static block'))
  }
}

function visitNamedExport(found: Found, node: Node): void {
  const add = (name: string, at: Node, declared: boolean) =>
    found.exports.push({ name, line: found.lineOf(at.start), declared })
  const specifiers = node.specifiers as Node[]
  for (const specifier of specifiers) add(nameOf(specifier.exported), specifier, false)
  const declaration = node.declaration
  if (!isNode(declaration)) return
  if (declaration.type !== 'VariableDeclaration') {
    add(nameOf(declaration.id), declaration, true)
    return
  }
  for (const declarator of declaration.declarations as Node[]) {
    for (const name of patternNames(declarator.id as Node)) add(name, declarator, true)
  }
}

/** In a test, the body of `describe` is a list of tests, each of which is counted on its own. */
const GROUPS = /^describe(\.|\(|$)/

function addFunction(found: Found, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  const grouped = found.file.startsWith(`${TEST_FOLDER}/`) && parent?.type === 'CallExpression'
  if (grouped && isNode(parent.callee) && parent.callee !== node) {
    const { start, end } = parent.callee
    if (GROUPS.test(found.text.slice(start, end))) return
  }
  found.functions.push(factOf(found, node, functionName(found, node, path)))
}

function factOf({ lineOf }: Found, node: Node, name: string): FunctionFact {
  const line = lineOf(node.start)
  return { name, line, lines: lineOf(node.end) - line + 1 }
}

const DECLARATIONS = /^(Import|Export|TS)|Declaration$/

function topLevelOf(found: Found): FunctionFact {
  const steps = (found.program.body as Node[])
    .filter(({ type }) => !DECLARATIONS.test(type))
    .map((statement) => factOf(found, statement, ''))
  const lines = steps.reduce((sum, step) => sum + step.lines, 0)
  return { name: 'top level', line: steps[0]?.line ?? 1, lines }
}

function functionName(found: Found, node: Node, path: readonly Node[]): string {
  if (isNode(node.id)) return nameOf(node.id)
  for (const outer of [...path].reverse()) {
    if (outer.type === 'MethodDefinition' || outer.type === 'PropertyDefinition' || outer.type === 'Property')
      return nameOf(outer.key)
    if (outer.type === 'VariableDeclarator') return nameOf(outer.id)
    if (outer.type === 'CallExpression' && isNode(outer.callee)) {
      const first = (outer.arguments as Node[])[0]
      const title = typeof first?.value === 'string' ? ` '${first.value}'` : ''
      return `${found.text.slice(outer.callee.start, outer.callee.end).split('\n')[0]}${title}`
    }
    if (/Function/.test(outer.type)) break
  }
  return 'a function'
}
