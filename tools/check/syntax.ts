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

/** Is it `import.meta`? */
export function isImportMeta(node: unknown): node is Node {
  return isNode(node) && node.type === 'MetaProperty' && nameOf(node.meta) === 'import'
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
