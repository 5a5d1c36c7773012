/** Forms of the language that no check can read are not used, and the deterministic part reads only its arguments. */
import { generated } from './check_imports'
import type { Edge, Finding, Graph } from './module_graph'
import type { Source } from './parse_source'
import {
  IMPURE_BY_CHOICE,
  IMPURE_MEANING,
  LOCALE_MEMBERS,
  OPENING_MEMBERS,
  PURE_FOLDERS,
  PURE_GLOBALS,
  PURE_MEMBERS,
  PURE_PACKAGES,
  WAITING_MEMBERS,
} from './rules'
import {
  constantText,
  isBound,
  isErased,
  isNode,
  isReference,
  keyOf,
  type Node,
  nameOf,
  type Scopes,
  scopesOf,
  WRAPPERS,
  walk,
} from './syntax'

export function checkSyntax({ sources }: Graph): Finding[] {
  return [...sources.values()].flatMap((source) => [...hiddenForms(source), ...directives(source)])
}

function hiddenForms(source: Source): Finding[] {
  const found: Finding[] = []
  walk(source.program, undefined, (node) => {
    const form = formOf(node)
    if (form === undefined) return
    found.push({
      file: source.file,
      line: source.lineOf(node.start),
      rule: 'plain-syntax',
      fault: `${form.name} ${form.fault}`,
      fix: form.fix,
    })
  })
  return found
}

type Form = { name: string; fault: string; fix: string }

function formOf(node: Node): Form | undefined {
  switch (node.type) {
    case 'TSModuleDeclaration':
      return {
        name:
          isNode(node.id) && node.global !== true ? `The namespace ${nameOf(node.id)}` : '`declare global`',
        fault: 'holds declarations that belong to no file of their own',
        fix: 'write a file for them, and import what it exports',
      }
    case 'TSExportAssignment':
    case 'TSNamespaceExportDeclaration':
      return {
        name: '`export =`',
        fault: 'exports a value without a name, so no rule sees who uses it',
        fix: 'export declarations by name',
      }
    case 'TSImportEqualsDeclaration':
      return {
        name: '`import =`',
        fault: 'is a second form of import',
        fix: "write `import { name } from './file'`",
      }
    case 'ExportAllDeclaration':
      if (!isNode(node.exported)) return undefined
      return {
        name: '`export * as`',
        fault: 'passes a whole file on under one name, so no tool sees which members are used',
        fix: 'export the members that are used by name',
      }
    case 'ImportAttribute':
      return {
        name: `The attribute \`${nameOf(node.key)}\``,
        fault: 'changes how the file is read',
        fix: 'import a `.ts` or `.json` file, which needs none',
      }
    default:
      return undefined
  }
}

/** Comments that the tools obey, and their meaning. A suppression of one linter rule on one line stays possible. */
const DIRECTIVES: readonly (readonly [RegExp, string, string])[] = [
  [
    /^\/\s*<(reference|amd-)/,
    'imports a file unseen',
    'write `import type`; tsconfig.json names the libraries',
  ],
  [/^\s*@ts-/, 'hides every error of tsc, the next one too', 'correct the types'],
  [/^\s*biome-ignore(-all|-start|-end)/, 'switches a rule off for a part of the file', 'suppress one line'],
  [/^\s*biome-ignore\s+format/, 'lets a function be longer than its lines', 'format the file'],
]

function directives({ file, comments }: Source): Finding[] {
  if (generated(file)) return []
  return comments.flatMap(({ line, text }) => {
    const directive = DIRECTIVES.find(([form]) => form.test(text.replace(/^\*/, '')))
    if (directive === undefined) return []
    const written = text.trim().split('\n')[0]!.slice(0, 40)
    return { file, line, rule: 'suppression', fault: `"${written}" ${directive[1]}`, fix: directive[2] }
  })
}

/**
 * The deterministic part reads only its arguments. Names of the platform are an allow-list, so that a new one (`WeakRef`,
 * `Intl`, `navigator`) needs a decision; a linter's list of denied globals would let it through.
 */

export function checkPurity(graph: Graph): Finding[] {
  return [...pureFiles(graph)]
    .sort()
    .flatMap((file) => [...impurities(graph.sources.get(file)!), ...impureImports(graph.edges.get(file)!)])
}

/** For files outside the pure folders; the map limits the imports of those inside. The platform never counts as pure. */
function impureImports(edges: readonly Edge[]): Finding[] {
  return edges.flatMap((edge) => {
    if (edge.kind !== 'value') return []
    const fault = edge.path === undefined ? packageFault(edge) : dataFault(edge)
    return fault === undefined
      ? []
      : [{ file: edge.from, line: edge.line, rule: 'pure-machine', fault, fix: TAKE_AS_ARGUMENT }]
  })
}

function packageFault({ from, specifier, names }: Edge): string | undefined {
  if (isPureFolder(from)) return undefined
  if (/^(node|bun)(:|$)/.test(specifier))
    return `The machine runs this file, and it imports ${specifier}: the platform is not the same in every replay`
  const pure = PURE_PACKAGES[specifier] ?? []
  const impure = names.filter((name) => !pure.includes(name))
  if (names.length > 0 && impure.length === 0) return undefined
  return `The machine runs this file, and it imports ${impure.join(', ') || 'the effects'} of ${specifier}, which PURE_PACKAGES in tools/check/rules.ts does not list`
}

function dataFault({ target }: Edge): string | undefined {
  if (target === undefined || target.endsWith('.ts')) return undefined
  return `The machine reads ${target}, which is no code: the next build decides with another content`
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
  const scopes = scopesOf(source.program)
  walk(source.program, undefined, (node, parent, path) => {
    if (waits(node)) {
      add(
        node,
        'pure-machine',
        'The machine awaits: between two steps of a decision other commands would run, and a replay would differ',
        'make the step synchronous, and do the waiting in engine/sequencer/',
      )
      return
    }
    const fault = impurityOf(source.file, scopes, node, parent, path)
    if (fault !== undefined) add(node, 'pure-machine', fault)
  })
  return found
}

function waits(node: Node): boolean {
  return (
    node.async === true ||
    node.await === true ||
    node.type === 'AwaitExpression' ||
    node.kind === 'await using'
  )
}

function impurityOf(
  file: string,
  scopes: Scopes,
  node: Node,
  parent: Node | undefined,
  path: readonly Node[],
): string | undefined {
  switch (node.type) {
    case 'ImportExpression':
      return 'The machine reads import(), which depends on where it runs'
    case 'MetaProperty':
      return 'The machine reads import.meta, which depends on where it runs'
    case 'MemberExpression':
      return (
        memberFault(keyOf(node)) ?? (node.computed === true ? keyFault(node.property as Node) : undefined)
      )
    case 'Property':
      if (parent?.type !== 'ObjectPattern') return undefined
      return memberFault(keyOf(node)) ?? (node.computed === true ? keyFault(node.key as Node) : undefined)
    case 'Literal':
    case 'TemplateLiteral': {
      const text = isErased(path) ? undefined : constantText(node)
      if (text === undefined || !OPENING_MEMBERS.has(text)) return undefined
      return `The machine holds the text '${text}', a key that leads to names that no check sees`
    }
    case 'BinaryExpression':
    case 'AssignmentExpression':
      return powerFault(node)
    case 'Identifier':
      if (!isReference(node, parent, path)) return undefined
      if (IMPURE_BY_CHOICE[`${file} ${chainOf(node, path)}`] !== undefined) return undefined
      return impureName(node, parent, (name) => isBound(scopes, name, path))
    default:
      return undefined
  }
}

function memberFault(member: string | undefined): string | undefined {
  if (member === undefined) return undefined
  if (LOCALE_MEMBERS.test(member))
    return `The machine reads ${member}, which depends on the locale of the machine`
  if (OPENING_MEMBERS.has(member))
    return `The machine reads ${member}, which leads to names that no check sees`
  if (WAITING_MEMBERS.has(member))
    return `The machine reads ${member}, which waits: other commands would run before its end`
  return undefined
}

/** Forms of a key that a number has; a text that is put together could be any name. */
const NUMBER_KEYS =
  /^(Identifier|Literal|(Member|Binary|Unary|Update|Assignment|Conditional|Call)Expression)$/
/** Functions that make a text. */
const TEXT_MAKERS = new Set(
  `String raw decode concat join replace replaceAll substr substring toString charAt repeat padStart padEnd trim
  trimStart trimEnd toLowerCase toUpperCase fromCharCode fromCodePoint`.split(/\s+/),
)

function keyFault(key: Node): string | undefined {
  if (WRAPPERS.test(key.type)) return keyFault(key.expression as Node)
  if (constantText(key) !== undefined || (NUMBER_KEYS.test(key.type) && !makesText(key))) return undefined
  return 'The machine reads a member whose name is put together, so no check sees it'
}

function makesText(key: Node): boolean {
  const { callee } = key
  if (key.type === 'BinaryExpression') return holdsText(key.left) || holdsText(key.right)
  if (key.type !== 'CallExpression' || !isNode(callee)) return false
  return TEXT_MAKERS.has((callee.type === 'MemberExpression' ? keyOf(callee) : nameOf(callee)) ?? '')
}

function holdsText(node: unknown): boolean {
  if (!isNode(node)) return false
  if (node.type === 'TemplateLiteral' || constantText(node) !== undefined) return true
  return node.type === 'BinaryExpression' && (holdsText(node.left) || holdsText(node.right))
}

/** `**` is `Math.pow`: exact for integers of BigInt, and for the constants that stay below 2^53. */
function powerFault({ operator, left, right }: Node): string | undefined {
  if (operator !== '**' && operator !== '**=') return undefined
  if ([left, right].some(isBigInt)) return undefined
  const [base, exponent] = [left, right].map((one) =>
    isNode(one) && one.type === 'Literal' ? one.value : undefined,
  )
  if (typeof base === 'number' && Number.isInteger(base) && typeof exponent === 'number')
    if (Number.isInteger(exponent) && Number.isSafeInteger(base ** exponent)) return undefined
  return 'The machine raises numbers to a power, whose result is not exact on every machine'
}

/** Written as a BigInt: with one such operand the other is one too, or the operation throws. */
function isBigInt(node: unknown): boolean {
  if (!isNode(node)) return false
  return (
    (node.type === 'Literal' && typeof node.bigint === 'string') ||
    (node.type === 'CallExpression' && nameOf(node.callee) === 'BigInt')
  )
}

/** `globalThis.Bun.SHA256` for the name `globalThis` in `(globalThis as T).Bun?.SHA256`. */
function chainOf(node: Node, path: readonly Node[]): string {
  const names = [nameOf(node)]
  let inner = node
  for (const outer of path.toReversed()) {
    if (outer.type === 'MemberExpression' && outer.object === inner) names.push(keyOf(outer) ?? '*')
    else if (!WRAPPERS.test(outer.type)) break
    inner = outer
  }
  return names.join('.')
}

function impureName(
  node: Node,
  parent: Node | undefined,
  bound: (name: string) => boolean,
): string | undefined {
  const name = nameOf(node)
  const members = PURE_MEMBERS.get(name)
  if (members !== undefined) {
    const member =
      parent?.type === 'MemberExpression' && parent.object === node ? (keyOf(parent) ?? '*') : undefined
    if (member !== undefined && members.has(member)) return undefined
    if (`${name}.${member}` === 'Math.random')
      return 'The machine reads chance (Math.random): a replay would decide otherwise'
    if (name === 'Math')
      return `The machine uses ${member === undefined ? 'Math as a value' : `Math.${member}`}, whose result is not exact on every machine`
    if (member === undefined && parent !== undefined && makesOrTests(node, parent)) return undefined
    // A member that is rejected under any object has one finding.
    if (memberFault(member) !== undefined) return undefined
    return `The machine uses ${member === undefined ? `${name} as a value` : `${name}.${member}`}, which PURE_MEMBERS in tools/check/rules.ts does not list`
  }
  if (IMPURE_MEANING[name] !== undefined)
    return `The machine reads ${IMPURE_MEANING[name]} (${name}): a replay would decide otherwise`
  if (PURE_GLOBALS.has(name) || bound(name)) return undefined
  return `The machine uses ${name}, which is not on the list of names that depend on their arguments alone`
}

/** `new Error()`, `Array(3)`, `one instanceof Error`, `extends Error`. */
function makesOrTests(node: Node, parent: Node): boolean {
  switch (parent.type) {
    case 'CallExpression':
    case 'NewExpression':
      return parent.callee === node
    case 'BinaryExpression':
      return parent.operator === 'instanceof' && parent.right === node
    default:
      return parent.superClass === node
  }
}
