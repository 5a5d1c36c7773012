/** Parses one TypeScript file with oxc and returns the facts that the rules need: imports, exports, functions, comments. */
import { dirname, join, normalize } from 'node:path'
import { type Comment, parseSync } from 'oxc-parser'

/**
 * `value` runs with the file; `type` is erased; `later` is `import()`; `url` is a file named by
 * `new URL('./x', import.meta.url)`: a worker thread, a process to start, a binary to load.
 */
type ImportKind = 'value' | 'type' | 'later' | 'url'
export type Import = {
  readonly line: number
  readonly kind: ImportKind
  /** As written. */
  readonly specifier: string
  /** Path from the root when the specifier is relative; without an extension if it was written without one. */
  readonly path: string | undefined
  /** Exported names that are used; `*` for all of them. */
  readonly names: readonly string[]
  /** `export * from`: its importers decide which names are used. */
  readonly passes_on?: true
}
export type Export = {
  readonly name: string
  readonly line: number
  /** Declared here with `export`, not passed on in braces. */
  readonly declared: boolean
}
type FunctionFact = { readonly name: string; readonly line: number; readonly lines: number }
/** A node of the syntax tree; its fields depend on its type (ESTree with TypeScript). */
export type Node = { type: string; start: number; end: number; [field: string]: unknown }

export type Source = {
  readonly file: string
  readonly text: string
  readonly program: Node
  readonly imports: readonly Import[]
  readonly exports: readonly Export[]
  readonly functions: readonly FunctionFact[]
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
  return { ...found, comments }
}

type Found = Pick<Source, 'file' | 'text' | 'program' | 'lineOf'> & {
  imports: Import[]
  exports: Export[]
  functions: FunctionFact[]
}

/** Calls `enter` for every node, parents first. `path` holds the ancestors, the root first. */
export function walk(
  node: Node,
  parent: Node | undefined,
  enter: (node: Node, parent: Node | undefined, path: readonly Node[]) => void,
  path: Node[] = [],
): void {
  enter(node, parent, path)
  path.push(node)
  for (const field in node) {
    const value = node[field]
    if (value === null || typeof value !== 'object') continue
    if (Array.isArray(value)) {
      for (const item of value) if (isNode(item)) walk(item, node, enter, path)
    } else if (isNode(value)) walk(value, node, enter, path)
  }
  path.pop()
}

export function isNode(value: unknown): value is Node {
  return value !== null && typeof value === 'object' && typeof (value as Node).type === 'string'
}

function visit(found: Found, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  switch (node.type) {
    case 'ImportDeclaration':
      addImport(found, node, kindOf(node.importKind), importedNames(found, node))
      break
    case 'ExportNamedDeclaration':
      visitNamedExport(found, node)
      break
    case 'ExportAllDeclaration':
      addImport(found, node, kindOf(node.exportKind), ['*'])
      if (node.exported === null) found.imports.push({ ...found.imports.pop()!, passes_on: true })
      break
    case 'ExportDefaultDeclaration':
      found.exports.push({ name: 'default', line: found.lineOf(node.start), declared: true })
      break
    case 'ImportExpression':
      addImport(found, node, 'later', laterNames(path))
      break
    case 'TSImportType':
      addImport(found, node, 'type', typeQueryNames(node))
      break
    case 'NewExpression':
      if (isModuleUrl(node)) addImport(found, node, 'url', [], (node.arguments as Node[])[0])
      break
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
      if (isNode(node.body)) addFunction(found, node, parent, path)
  }
}

function kindOf(written: unknown): ImportKind {
  return written === 'type' ? 'type' : 'value'
}

function addImport(
  found: Found,
  node: Node,
  kind: ImportKind,
  names: readonly string[],
  source: unknown = node.source,
): void {
  // A computed name cannot be followed; the rules forbid none of these on their own.
  if (!isNode(source) || typeof source.value !== 'string') return
  const specifier = source.value
  const path = specifier.startsWith('.') ? normalize(join(dirname(found.file), specifier)) : undefined
  found.imports.push({ line: found.lineOf(node.start), kind, specifier, path, names })
}

function importedNames(found: Found, node: Node): string[] {
  return (node.specifiers as Node[]).flatMap((specifier) => {
    if (specifier.type === 'ImportSpecifier') return [nameOf(specifier.imported)]
    if (specifier.type === 'ImportDefaultSpecifier') return ['default']
    return namespaceNames(found.program, nameOf(specifier.local))
  })
}

/** Members read from a namespace import; every name when the namespace itself is passed on. */
function namespaceNames(program: Node, local: string): string[] {
  const names = new Set<string>()
  walk(program, undefined, (node, parent) => {
    if (node.type !== 'Identifier' || node.name !== local || parent === undefined) return
    if (/^(Import|TSTypeQuery)/.test(parent.type)) return
    if (parent.type === 'MemberExpression') {
      if (parent.object === node) names.add(parent.computed === true ? '*' : nameOf(parent.property))
      else if (parent.computed === true) names.add('*')
    } else if (parent.type === 'TSQualifiedName') {
      if (parent.left === node) names.add(nameOf(parent.right))
    } else if (!(parent.type === 'Property' && parent.key === node && parent.value !== node)) names.add('*')
  })
  return names.has('*') ? ['*'] : [...names]
}

/** `const { a } = await import()` and `(await import()).a` name the exports they use; any other form may use all. */
function laterNames(path: readonly Node[]): string[] {
  const awaited = path.at(-1)
  const outer = path.at(-2)
  if (awaited?.type !== 'AwaitExpression' || outer === undefined) return ['*']
  if (outer.type === 'MemberExpression' && outer.computed !== true) return [nameOf(outer.property)]
  const pattern = outer.type === 'VariableDeclarator' ? (outer.id as Node) : undefined
  if (pattern?.type !== 'ObjectPattern') return ['*']
  return (pattern.properties as Node[]).map((property) =>
    property.type === 'Property' && property.computed !== true ? nameOf(property.key) : '*',
  )
}

function typeQueryNames(node: Node): string[] {
  let qualifier = node.qualifier
  while (isNode(qualifier) && qualifier.type === 'TSQualifiedName') qualifier = qualifier.left
  return isNode(qualifier) ? [nameOf(qualifier)] : ['*']
}

function isModuleUrl(node: Node): boolean {
  const [path, base] = node.arguments as (Node | undefined)[]
  return (
    isNode(node.callee) &&
    nameOf(node.callee) === 'URL' &&
    typeof path?.value === 'string' &&
    path.value.startsWith('.') &&
    base?.type === 'MemberExpression' &&
    isNode(base.object) &&
    base.object.type === 'MetaProperty'
  )
}

function visitNamedExport(found: Found, node: Node): void {
  const add = (name: string, at: Node, declared: boolean) =>
    found.exports.push({ name, line: found.lineOf(at.start), declared })
  const specifiers = node.specifiers as Node[]
  for (const specifier of specifiers) add(nameOf(specifier.exported), specifier, false)
  if (isNode(node.source)) {
    const names = specifiers.map((specifier) => nameOf(specifier.local))
    addImport(found, node, kindOf(node.exportKind), names)
  }
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

/** Names that a binding pattern declares. */
export function patternNames(pattern: Node): string[] {
  switch (pattern.type) {
    case 'Identifier':
      return [nameOf(pattern)]
    case 'ObjectPattern':
      return (pattern.properties as Node[]).flatMap((property) =>
        patternNames((property.type === 'RestElement' ? property.argument : property.value) as Node),
      )
    case 'ArrayPattern':
      return (pattern.elements as (Node | null)[]).flatMap((element) =>
        element ? patternNames(element) : [],
      )
    case 'AssignmentPattern':
      return patternNames(pattern.left as Node)
    case 'RestElement':
      return patternNames(pattern.argument as Node)
    case 'TSParameterProperty':
      return patternNames(pattern.parameter as Node)
    default:
      return []
  }
}

/** Name of an identifier or of a string that is used as one. */
export function nameOf(node: unknown): string {
  if (!isNode(node)) return ''
  return typeof node.name === 'string' ? node.name : String(node.value ?? '')
}

/** The body of `describe` is a list of tests, each of which is counted on its own. */
const GROUPS = /^describe(\.|\(|$)/

function addFunction(found: Found, node: Node, parent: Node | undefined, path: readonly Node[]): void {
  if (parent?.type === 'CallExpression' && isNode(parent.callee) && parent.callee !== node) {
    const { start, end } = parent.callee
    if (GROUPS.test(found.text.slice(start, end))) return
  }
  const line = found.lineOf(node.start)
  const lines = found.lineOf(node.end) - line + 1
  found.functions.push({ name: functionName(found, node, path), line, lines })
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

function lineFinder(text: string): (offset: number) => number {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= offset) low = middle
      else high = middle
    }
    return low + 1
  }
}
