/** Resolves names to the bindings of a file: what a scope declares as a value counts inside that scope only. */
import { isFunction, isNode, type Node, nameOf, patternNames, walk } from './syntax'

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
