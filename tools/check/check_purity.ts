/**
 * The deterministic part reads nothing but its arguments. Names of the platform are an allow-list, so that a new one
 * (`WeakRef`, `Intl`, `navigator`) needs a decision; a linter's list of denied globals would let it through.
 */
import type { Finding } from './finding'
import type { Edge, Graph } from './module_graph'
import { isNode, type Node, nameOf, patternNames, type Source, walk } from './parse_source'
import {
  IMPURE_BY_CHOICE,
  IMPURE_MEANING,
  LOCALE_MEMBERS,
  OPENING_MEMBERS,
  PURE_FOLDERS,
  PURE_GLOBALS,
  PURE_MATH,
} from './rules'

export function checkPurity(graph: Graph): Finding[] {
  return [...pureFiles(graph)]
    .sort()
    .filter((file) => IMPURE_BY_CHOICE[file] === undefined)
    .flatMap((file) => [...impurities(graph.sources.get(file)!), ...platformImports(graph.edges.get(file)!)])
}

/** For files outside the pure folders; the map limits the imports of those inside. The platform never counts as pure. */
function platformImports(edges: readonly Edge[]): Finding[] {
  return edges
    .filter(
      ({ from, kind, specifier }) =>
        kind === 'value' && !isPureFolder(from) && /^(node|bun)(:|$)/.test(specifier),
    )
    .map(({ from, line, specifier }) => ({
      file: from,
      line,
      rule: 'pure-machine',
      fault: `The machine runs this file, and it imports ${specifier}: the platform is not the same in every replay`,
      fix: TAKE_AS_ARGUMENT,
    }))
}

/** The pure folders and every file that runs with them: one import of an impure file would be a way around the rule. */
function pureFiles({ sources, edges }: Graph): Set<string> {
  const reached = new Set([...sources.keys()].filter(isPureFolder))
  for (const file of reached)
    for (const { kind, target } of edges.get(file)!)
      if (kind === 'value' && target !== undefined && sources.has(target)) reached.add(target)
  return reached
}

const isPureFolder = (file: string) => PURE_FOLDERS.some((folder) => file.startsWith(`${folder}/`))

const TAKE_AS_ARGUMENT =
  'take the value from the command or the state, or as an argument of the function; only code outside engine/machine/ reads the world'

function impurities(source: Source): Finding[] {
  const found: Finding[] = []
  const add = (node: Node, rule: string, fault: string, fix = TAKE_AS_ARGUMENT) =>
    found.push({ file: source.file, line: source.lineOf(node.start), rule, fault, fix })
  const bound = bindingsOf(source.program)
  walk(source.program, undefined, (node, parent, path) => {
    if (node.async === true || node.type === 'AwaitExpression' || node.await === true) {
      add(
        node,
        'pure-machine',
        'The machine awaits: between two steps of a decision other commands would run, and a replay would differ',
        'make the step synchronous, and do the waiting in engine/sequencer/',
      )
    } else if (node.type === 'ImportExpression' || node.type === 'MetaProperty') {
      const read = node.type === 'MetaProperty' ? 'import.meta' : 'import()'
      add(node, 'pure-machine', `The machine reads ${read}, which depends on where it runs`)
    } else if (node.type === 'MemberExpression') {
      const member = node.computed === true ? undefined : nameOf(node.property)
      if (member !== undefined && LOCALE_MEMBERS.test(member))
        add(node, 'pure-machine', `The machine reads ${member}, which depends on the locale of the machine`)
      else if (member !== undefined && OPENING_MEMBERS.has(member))
        add(node, 'pure-machine', `The machine reads ${member}, which leads to names that no check sees`)
    } else if (node.type === 'Identifier' && isReference(node, parent, path)) {
      const fault = impureName(node, parent, bound)
      if (fault !== undefined) add(node, 'pure-machine', fault)
    }
  })
  return found
}

function impureName(node: Node, parent: Node | undefined, bound: ReadonlySet<string>): string | undefined {
  const name = nameOf(node)
  if (name === 'Math') {
    const member =
      parent?.type === 'MemberExpression' && parent.computed !== true ? nameOf(parent.property) : undefined
    if (member !== undefined && PURE_MATH.has(member)) return undefined
    if (member === 'random') return 'The machine reads chance (Math.random): a replay would decide otherwise'
    return `The machine uses ${member === undefined ? 'Math as a value' : `Math.${member}`}, whose result is not exact on every machine`
  }
  if (IMPURE_MEANING[name] !== undefined)
    return `The machine reads ${IMPURE_MEANING[name]} (${name}): a replay would decide otherwise`
  if (PURE_GLOBALS.has(name) || bound.has(name)) return undefined
  return `The machine uses ${name}, which is not on the list of names that depend on their arguments alone`
}

/** Every name that the file declares anywhere. A file that declares a forbidden name does not get past `IMPURE_MEANING`. */
function bindingsOf(program: Node): Set<string> {
  const names = new Set<string>()
  const add = (pattern: unknown) => {
    if (isNode(pattern)) for (const name of patternNames(pattern)) names.add(name)
  }
  walk(program, undefined, (node) => {
    if (/^Import(Default|Namespace)?Specifier$/.test(node.type)) add(node.local)
    else if (node.type === 'VariableDeclarator') add(node.id)
    else if (/Function/.test(node.type)) {
      add(node.id)
      if (Array.isArray(node.params)) for (const parameter of node.params) add(parameter)
    } else if (/^(Class|TSEnum)/.test(node.type)) add(node.id)
    else if (node.type === 'CatchClause') add(node.param)
  })
  return names
}

/** TypeScript nodes that hold values; every other one is erased. */
const VALUE_NODES =
  /^TS(As|Satisfies|NonNull|Instantiation)Expression$|^TS(TypeAssertion|ParameterProperty|Enum)/

function isReference(node: Node, parent: Node | undefined, path: readonly Node[]): boolean {
  if (parent === undefined || path.some(({ type }) => type.startsWith('TS') && !VALUE_NODES.test(type)))
    return false
  switch (parent.type) {
    case 'MemberExpression':
      return parent.object === node || parent.computed === true
    case 'Property':
      return parent.value === node || parent.computed === true
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
      return parent.value === node || parent.computed === true
    case 'LabeledStatement':
    case 'BreakStatement':
    case 'ContinueStatement':
    case 'ImportSpecifier':
    case 'ExportSpecifier':
      return false
    default:
      return true
  }
}
