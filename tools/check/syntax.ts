/** Walks the syntax tree that oxc returns and reads the names and constant texts in it. */

/** A node of the syntax tree; its fields depend on its type (ESTree with TypeScript). */
export type Node = { type: string; start: number; end: number; [field: string]: unknown }

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

/** Name of an identifier or of a string that is used as one. */
export function nameOf(node: unknown): string {
  if (!isNode(node)) return ''
  return typeof node.name === 'string' ? node.name : String(node.value ?? '')
}

/** The text that an expression always has: a string, a template without holes, or a sum of these. */
export function constantText(node: unknown): string | undefined {
  if (!isNode(node)) return undefined
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : undefined
  if (node.type === 'TemplateLiteral') {
    const [first, ...others] = node.quasis as { value: { cooked: string } }[]
    return others.length === 0 ? first!.value.cooked : undefined
  }
  if (WRAPPERS.test(node.type)) return constantText(node.expression)
  if (node.type !== 'BinaryExpression' || node.operator !== '+') return undefined
  const [left, right] = [constantText(node.left), constantText(node.right)]
  return left === undefined || right === undefined ? undefined : left + right
}

/** Nodes that pass the value of their expression on. */
export const WRAPPERS =
  /^(TS(As|Satisfies|NonNull|Instantiation)Expression|TSTypeAssertion|ParenthesizedExpression|ChainExpression)$/

/** The key of a member expression or of a property of a pattern; undefined when only the run knows it. */
export function keyOf(node: Node): string | undefined {
  const key = (node.type === 'MemberExpression' ? node.property : node.key) as Node
  if (key.type === 'PrivateIdentifier') return undefined
  return node.computed === true ? constantText(key) : nameOf(key)
}

export function isImportMeta(node: unknown): node is Node {
  return isNode(node) && node.type === 'MetaProperty' && nameOf(node.meta) === 'import'
}

/** Names that a binding pattern declares. */
function patternNames(pattern: Node): string[] {
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

export function isFunction({ type }: Node): boolean {
  return type === 'FunctionDeclaration' || type === 'FunctionExpression' || type === 'ArrowFunctionExpression'
}

/** Line, from 1, of each offset of a text. */
export function lineFinder(text: string): (offset: number) => number {
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

/** Resolves names to the bindings of a file: a value that a scope declares counts inside that scope only. */
export type Scopes = ReadonlyMap<Node, ReadonlySet<string>>

/** Nodes that hold the bindings declared directly in them. */
const SCOPES = /^(Program|BlockStatement|For(In|Of)?Statement|SwitchStatement|StaticBlock|TSModuleBlock)$/

/** The names that each scope binds to values. Types and `declare` bind nothing: at run time they are not there. */
export function scopesOf(program: Node): Scopes {
  const scopes = new Map<Node, Set<string>>()
  const add = (scope: Node, pattern: unknown) => {
    if (!isNode(pattern)) return
    const names = scopes.get(scope) ?? new Set<string>()
    scopes.set(scope, names)
    for (const name of patternNames(pattern)) names.add(name)
  }
  walk(program, undefined, (node, parent, path) => {
    if (node.declare === true) return
    const block = () => path.findLast(({ type }) => SCOPES.test(type))!
    switch (node.type) {
      case 'ImportSpecifier':
      case 'ImportDefaultSpecifier':
      case 'ImportNamespaceSpecifier':
        if (node.importKind !== 'type' && parent!.importKind !== 'type') add(program, node.local)
        break
      case 'TSImportEqualsDeclaration':
        if (node.importKind !== 'type') add(block(), node.id)
        break
      case 'VariableDeclaration': {
        const owner = node.kind === 'var' ? path.findLast((one) => isFunction(one)) : block()
        for (const one of node.declarations as Node[]) add(owner ?? program, one.id)
        break
      }
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
      case 'TSEnumDeclaration':
        add(block(), node.id)
        break
      case 'FunctionExpression':
      case 'ClassExpression':
        add(node, node.id)
        break
      case 'CatchClause':
        add(node, node.param)
    }
    if (isFunction(node)) for (const parameter of node.params as Node[]) add(node, parameter)
  })
  return scopes
}

/** Does a scope around it bind the name? `path` holds the ancestors of the reference. */
export function isBound(scopes: Scopes, name: string, path: readonly Node[]): boolean {
  return path.some((scope) => scopes.get(scope)?.has(name))
}

/** TypeScript nodes that hold values; every other one is erased. */
const VALUE_NODES =
  /^TS(As|Satisfies|NonNull|Instantiation)Expression$|^TS(TypeAssertion|ParameterProperty|Enum|Module|ExportAssignment)/

/** Is the node erased before the file runs? */
export function isErased(path: readonly Node[]): boolean {
  return path.some(({ type }) => type.startsWith('TS') && !VALUE_NODES.test(type))
}

/** Does an identifier read or write a variable, rather than name a member, a label or a type? */
export function isReference(node: Node, parent: Node | undefined, path: readonly Node[]): boolean {
  if (parent === undefined || isErased(path)) return false
  switch (parent.type) {
    case 'MemberExpression':
      return parent.object === node || parent.computed === true
    case 'Property':
      return parent.value === node || parent.computed === true
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
      return parent.value === node || parent.computed === true
    case 'TSEnumMember':
      return parent.id !== node
    case 'LabeledStatement':
    case 'BreakStatement':
    case 'ContinueStatement':
    case 'ImportSpecifier':
    case 'ImportDefaultSpecifier':
    case 'ImportNamespaceSpecifier':
    case 'ExportSpecifier':
    case 'ImportAttribute':
    case 'MetaProperty':
    case 'TSModuleDeclaration':
      return false
    default:
      return nameOf(node) !== ''
  }
}
