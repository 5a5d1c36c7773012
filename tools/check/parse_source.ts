/** Parses one TypeScript file with oxc and returns the facts that the rules need: imports, functions, comments. */
import { type Comment, parseSync } from 'oxc-parser'
import { type Import, type ImportsFound, visitImport } from './parse_imports'
import { TEST_FOLDER } from './rules'
import { isNode, lineFinder, type Node, nameOf, walk } from './syntax'

type FunctionFact = { readonly name: string; readonly line: number; readonly lines: number }

export type Source = {
  readonly file: string
  readonly text: string
  readonly program: Node
  readonly imports: readonly Import[]
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
  const found: Found = { file, text, program, lineOf, imports: [], functions: [] }
  walk(program, undefined, (node, parent, path) => visit(found, node, parent, path))
  const comments = parsed.comments.map((comment: Comment) => ({
    line: lineOf(comment.start),
    text: comment.value,
  }))
  return { ...found, top_level: topLevelOf(found), comments }
}

type Found = ImportsFound & { program: Node; functions: FunctionFact[] }

function visit(found: Found, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  visitImport(found, node, parent, path)
  switch (node.type) {
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      if (isNode(node.body)) addFunction(found, node, parent, path)
      break
    case 'StaticBlock':
      found.functions.push(factOf(found, node, 'a static block'))
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
