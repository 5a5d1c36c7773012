/** Parses one TypeScript file with oxc and returns the facts that the rules need: imports in every form, functions, comments. */

import { dirname, join, normalize } from 'node:path'
import { type Comment, parseSync } from 'oxc-parser'
import { TEST_FOLDER } from './rules'
import {
  constantText,
  isFunction,
  isImportMeta,
  isNode,
  isReference,
  keyOf,
  lineFinder,
  type Node,
  nameOf,
  walk,
} from './syntax'

/**
 * `value` runs with the file; `type` is erased; `later` is `import()`; `url` is a file named by
 * `new URL('./x', import.meta.url)`: a worker thread, a process to start, a binary to load; `computed` is any form whose
 * file only the run knows.
 */
type ImportKind = 'value' | 'type' | 'later' | 'url' | 'computed'
export type Import = {
  readonly line: number
  readonly kind: ImportKind
  /** As written. */
  readonly specifier: string
  /** Path from the root when the specifier is relative; without an extension if it was written without one. */
  readonly path: string | undefined
  /** Exported names that are used; `*` for all of them. */
  readonly names: readonly string[]
  /** `import()` outside a function: the file waits for it while it loads. */
  readonly at_load?: boolean
}

type ImportsFound = {
  readonly file: string
  readonly text: string
  readonly lineOf: (offset: number) => number
  readonly imports: Import[]
}

function visitImport(found: ImportsFound, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  switch (node.type) {
    case 'ImportDeclaration':
      add(found, node, kindOf(node.importKind), node.source, { names: importedNames(node) })
      break
    case 'ExportNamedDeclaration':
      if (isNode(node.source)) {
        const names = (node.specifiers as Node[]).map((specifier) => nameOf(specifier.local))
        add(found, node, kindOf(node.exportKind), node.source, { names })
      }
      break
    case 'ExportAllDeclaration':
      add(found, node, kindOf(node.exportKind), node.source)
      break
    case 'TSImportType':
      add(found, node, 'type', node.source)
      break
    case 'TSExternalModuleReference':
      add(found, node, kindOf(parent!.importKind), node.expression)
      break
    case 'ImportExpression':
      visitLater(found, node, path)
      break
    case 'NewExpression':
      visitNew(found, node)
      break
    case 'MemberExpression':
      visitMember(found, node, parent)
      break
    case 'Property':
      if (parent?.type === 'ObjectPattern' && node.shorthand !== true && keyOf(node) === 'Worker')
        add(found, node, 'computed', node)
      break
    case 'MetaProperty':
      // `import.meta` as a value: its `require` could be taken from it unseen.
      if (isImportMeta(node) && !(parent?.type === 'MemberExpression' && keyOf(parent) !== undefined))
        add(found, node, 'computed', node)
      break
    case 'Identifier':
      visitName(found, node, parent, path)
  }
}

type Uses = Partial<Pick<Import, 'names' | 'at_load'>>

/** Adds an import of the file that `source` names; a name that only the run knows makes it `computed`. */
function add(found: ImportsFound, node: Node, kind: ImportKind, source: unknown, uses: Uses = {}): void {
  const line = found.lineOf(node.start)
  const specifier = kind === 'computed' ? undefined : constantText(source)
  if (specifier === undefined) {
    const written = found.text.slice(node.start, node.end).split('\n')[0]!.slice(0, 60)
    found.imports.push({ line, kind: 'computed', specifier: written, path: undefined, names: [] })
    return
  }
  const relative = /^\.{1,2}(\/|$)/.test(specifier)
  const path = relative ? normalize(join(dirname(found.file), specifier)) : undefined
  found.imports.push({ line, kind, specifier, path, names: ['*'], ...uses })
}

function kindOf(written: unknown): ImportKind {
  return written === 'type' ? 'type' : 'value'
}

/** An `import()` that every load of the file runs is an import at the start, in another form. */
function visitLater(found: ImportsFound, node: Node, path: readonly Node[]): void {
  const delayed = path.some(
    (outer, at) =>
      (isFunction(outer) && !isCalledAtOnce(outer, path, at)) ||
      (outer.type === 'PropertyDefinition' && outer.static !== true),
  )
  const conditional = path.some(({ type }) =>
    /^(ConditionalExpression|IfStatement|LogicalExpression|SwitchCase)$/.test(type),
  )
  add(found, node, delayed || conditional ? 'later' : 'value', node.source, { at_load: !delayed })
}

function isCalledAtOnce(node: Node, path: readonly Node[], at: number): boolean {
  const outer = path.slice(0, at).findLast(({ type }) => type !== 'ParenthesizedExpression')
  return outer?.type === 'CallExpression' && (outer.arguments as Node[]).every((one) => one !== node)
}

function visitNew(found: ImportsFound, node: Node): void {
  if (!isNode(node.callee)) return
  const made = node.callee.type === 'MemberExpression' ? keyOf(node.callee) : nameOf(node.callee)
  const [first] = node.arguments as (Node | undefined)[]
  if (made === 'URL' && isModuleUrl(node)) addUrl(found, node, first!)
  else if (/^(Shared)?Worker$/.test(made ?? '')) {
    const url = first?.type === 'MemberExpression' ? first.object : first
    if (!isNode(url) || !isModuleUrl(url)) add(found, node, 'computed', first)
  }
}

function isModuleUrl(node: Node): boolean {
  if (node.type !== 'NewExpression' || nameOf(node.callee) !== 'URL') return false
  const base = (node.arguments as Node[])[1]
  return base?.type === 'MemberExpression' && isImportMeta(base.object)
}

/** A URL that begins with a name is relative too. */
function addUrl(found: ImportsFound, node: Node, source: Node): void {
  const written = constantText(source)
  if (written !== undefined && /^[a-z][a-z0-9+.-]*:/i.test(written) && !written.startsWith('file:')) return
  const relative = written === undefined || /^(\.{0,2}\/|\.{1,2}$)/.test(written) ? written : `./${written}`
  if (relative === undefined) add(found, node, 'computed', source)
  else add(found, node, 'url', { ...source, type: 'Literal', value: relative }, { names: [] })
}

/** Ways to load a module by a member: `import.meta.require('x')`, `module.require('x')`. */
const LOADERS: Readonly<Record<string, ImportKind>> = {
  require: 'value',
  resolve: 'url',
  resolveSync: 'url',
  getBuiltinModule: 'value',
}

function visitMember(found: ImportsFound, node: Node, parent: Node | undefined): void {
  const key = keyOf(node)
  if (key === 'Worker' && parent?.type !== 'NewExpression') add(found, node, 'computed', node)
  else if (key === 'getBuiltinModule') visitRequire(found, node, parent, 'value')
  else if (isImportMeta(node.object)) {
    if (key !== undefined && Object.hasOwn(LOADERS, key)) visitRequire(found, node, parent, LOADERS[key]!)
    else if (key === 'url' && !(parent?.type === 'NewExpression' && nameOf(parent.callee) === 'URL'))
      add(found, node, 'computed', node)
  } else if (key === 'require' && /^(module|globalThis)$/.test(nameOf(node.object)))
    visitRequire(found, node, parent, 'value')
}

/** `require` loads; `Worker` under another name would start a file unseen. */
function visitName(found: ImportsFound, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  if (node.name === 'require' && isReference(node, parent, path)) visitRequire(found, node, parent, 'value')
  else if (node.name === 'Worker' && isReference(node, parent, path) && parent?.type !== 'NewExpression')
    add(found, node, 'computed', node)
}

/** A loader that is called with a constant names a file; any other use of it hides the file. */
function visitRequire(found: ImportsFound, loader: Node, parent: Node | undefined, kind: ImportKind): void {
  const called = parent?.type === 'CallExpression' && parent.callee === loader
  const [first, ...others] = called ? (parent.arguments as Node[]) : []
  if (called && others.length === 0) add(found, parent, kind, first)
  else add(found, parent ?? loader, 'computed', loader)
}

/** The exported names; `*` for a namespace, whose members could be any. */
function importedNames(node: Node): string[] {
  return (node.specifiers as Node[]).map((specifier) => {
    if (specifier.type === 'ImportSpecifier') return nameOf(specifier.imported)
    return specifier.type === 'ImportDefaultSpecifier' ? 'default' : '*'
  })
}

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
