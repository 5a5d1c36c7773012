/** Finds every form in which a file names another one: imports, `require`, URLs of modules, workers. */
import { dirname, join, normalize } from 'node:path'
import { isReference } from './scopes'
import { constantText, isFunction, isImportMeta, isNode, keyOf, type Node, nameOf, walk } from './syntax'

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
  /** Local name of each imported one. */
  readonly locals?: ReadonlyMap<string, string>
  /** `export * from`: its importers decide which names are used. */
  readonly passes_on?: true
  /** `export * as NAME from`: its importers decide which members of NAME are used. */
  readonly namespace?: string
  /** `import()` outside a function: the file waits for it while it loads. */
  readonly at_load?: boolean
}

export type ImportsFound = {
  readonly file: string
  readonly text: string
  readonly program: Node
  readonly lineOf: (offset: number) => number
  readonly imports: Import[]
}

export function visitImport(
  found: ImportsFound,
  node: Node,
  parent: Node | undefined,
  path: readonly Node[],
): void {
  switch (node.type) {
    case 'ImportDeclaration':
      add(found, node, kindOf(node.importKind), node.source, {
        names: importedNames(found, node),
        locals: localNames(node),
      })
      break
    case 'ExportNamedDeclaration':
      if (isNode(node.source)) {
        const names = (node.specifiers as Node[]).map((specifier) => nameOf(specifier.local))
        add(found, node, kindOf(node.exportKind), node.source, { names })
      }
      break
    case 'ExportAllDeclaration':
      add(
        found,
        node,
        kindOf(node.exportKind),
        node.source,
        isNode(node.exported)
          ? { names: [], namespace: nameOf(node.exported) }
          : { names: ['*'], passes_on: true },
      )
      break
    case 'TSImportType':
      add(found, node, 'type', node.source, { names: typeQueryNames(node) })
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

type Uses = Pick<Import, 'names'> & Partial<Pick<Import, 'locals' | 'passes_on' | 'namespace' | 'at_load'>>

/** Adds an import of the file that `source` names; a name that only the run knows makes it `computed`. */
function add(
  found: ImportsFound,
  node: Node,
  kind: ImportKind,
  source: unknown,
  uses: Uses = { names: ['*'] },
): void {
  const line = found.lineOf(node.start)
  const specifier = kind === 'computed' ? undefined : constantText(source)
  if (specifier === undefined) {
    const written = found.text.slice(node.start, node.end).split('\n')[0]!.slice(0, 60)
    found.imports.push({ line, kind: 'computed', specifier: written, path: undefined, names: [] })
    return
  }
  const relative = /^\.{1,2}(\/|$)/.test(specifier)
  const path = relative ? normalize(join(dirname(found.file), specifier)) : undefined
  found.imports.push({ line, kind, specifier, path, ...uses })
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
  add(found, node, delayed || conditional ? 'later' : 'value', node.source, {
    names: laterNames(path),
    at_load: !delayed,
  })
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

function localNames(node: Node): Map<string, string> {
  const named = (node.specifiers as Node[]).filter(({ type }) => type === 'ImportSpecifier')
  return new Map(named.map((one) => [nameOf(one.imported), nameOf(one.local)]))
}

function importedNames(found: ImportsFound, node: Node): string[] {
  return (node.specifiers as Node[]).flatMap((specifier) => {
    if (specifier.type === 'ImportSpecifier') return [nameOf(specifier.imported)]
    if (specifier.type === 'ImportDefaultSpecifier') return ['default']
    return namespaceNames(found.program, nameOf(specifier.local))
  })
}

/** Members read from a namespace import; every name when the namespace itself is passed on. */
export function namespaceNames(program: Node, local: string): string[] {
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
