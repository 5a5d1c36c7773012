/** Checks imports: the cells of the map, the faces of the packages, the owners of the frameworks. */
import { type Edge, type Finding, folderOf, type Graph, type Tree, topOf } from './module_graph'
import {
  ALIAS_FIELDS,
  ALIAS_OPTIONS,
  CELLS,
  type Cell,
  COMPUTED_IMPORTS,
  DEVELOPMENT_FOLDERS,
  GENERATED,
  PACKAGE_OWNERS,
  TEST_FOLDER,
} from './rules'

export function checkImports(graph: Graph): Finding[] {
  const packages = packagesOf(graph.tree)
  return [
    ...unknownFolders(graph),
    ...idleExceptions(graph),
    ...[...graph.edges].flatMap(([file, edges]) =>
      edges.flatMap((edge) => checkEdge(packages, file, edge) ?? []),
    ),
  ]
}

const bySpecificity = [...CELLS].sort((a, b) => b.folder.length - a.folder.length)

/** The cell of a file; undefined when no cell of the map owns it. */
function cellOf(file: string): Cell | undefined {
  const cell = bySpecificity.find(({ folder }) => covers(folder, file))
  return cell?.flat && folderOf(file) !== cell.folder ? undefined : cell
}

/** Is `file` the file or inside the folder that `pattern` names? */
function covers(pattern: string, file: string): boolean {
  return file === pattern || file === `${pattern}.ts` || file.startsWith(`${pattern}/`)
}

function unknownFolders({ sources }: Graph): Finding[] {
  const unknown = new Map<string, string>()
  for (const file of sources.keys()) {
    if (cellOf(file) === undefined && !unknown.has(folderOf(file))) unknown.set(folderOf(file), file)
  }
  return [...unknown].map(([folder, file]) => ({
    file,
    line: 1,
    rule: 'unknown-folder',
    fault: `${folder === '' ? 'The root' : `The folder ${folder}/`} is not on the map, so its imports are unlimited`,
    fix: 'move the file to the folder that owns its subject, or add a cell to CELLS in tools/check/rules.ts',
  }))
}

function checkEdge(packages: Packages, file: string, edge: Edge): Finding | undefined {
  const place = { file, line: edge.line }
  if (isComputed(edge))
    return COMPUTED_IMPORTS[file] === undefined ? { ...place, ...COMPUTED(edge) } : undefined
  const cell = cellOf(file)
  if (edge.path === undefined) {
    const breach = cell && packageBreach(file, cell, edge.specifier)
    if (breach !== undefined) return { ...place, rule: 'package-owner', ...breach }
    const fault = packageFault(packages, file, edge.specifier)
    return fault && { ...place, ...fault }
  }
  if (edge.target === undefined) return { ...place, ...unresolved(edge) }
  const breach = (cell && directionBreach(file, cell, edge, edge.target)) ?? unreadTarget(edge, edge.target)
  return breach && { ...place, ...breach }
}

/** Modules that load files by any text: `createRequire`, `Worker`, `runInThisContext`. */
const LOADERS = /^(node:)?(module|worker_threads|vm)$/

function isComputed({ kind, specifier }: Edge): boolean {
  return kind === 'computed' || (kind !== 'type' && LOADERS.test(specifier))
}

const COMPUTED = ({ specifier }: Edge): Rest => ({
  rule: 'computed-import',
  fault: `${specifier} loads a file that only the run knows, so no rule sees which one`,
  fix: "write the path as text: `import('./file')`, or `new URL('./file.ts', import.meta.url)` for a worker; an exception goes to COMPUTED_IMPORTS in tools/check/rules.ts, with a reason",
})

function unresolved({ kind, specifier }: Edge): Rest {
  if (kind === 'url')
    return {
      rule: 'missing-file',
      fault: `${specifier} does not exist, so the URL fails when it is used`,
      fix: 'correct the path',
    }
  return {
    rule: 'unresolved-import',
    fault: `${specifier} names no file of the tree, so no rule sees what it loads`,
    fix: 'write the path of a `.ts` file without its extension, or of a `.json` file with it; of a folder, name its index: `./folder/index`',
  }
}

function unreadTarget({ kind }: Edge, target: string): Rest | undefined {
  if (kind === 'url' || /\.(ts|json)$|^bun\.lock$/.test(target)) return undefined
  return {
    rule: 'unresolved-import',
    fault: `${target} is not a module that the rules read`,
    fix: 'import `.ts` and `.json` files only; read another file with `new URL()`, or `readFileSync`',
  }
}

/** An exception that nothing needs hides the next violation. */
function idleExceptions({ edges }: Graph): Finding[] {
  return Object.keys(COMPUTED_IMPORTS)
    .filter((file) => edges.has(file) && !edges.get(file)!.some(isComputed))
    .map((file) => ({
      file,
      line: 1,
      rule: 'computed-import',
      fault: 'COMPUTED_IMPORTS lists this file, whose imports are all written out',
      fix: 'delete the entry in tools/check/rules.ts',
    }))
}

type Rest = Pick<Finding, 'rule' | 'fault' | 'fix'>
type Breach = Pick<Finding, 'fault' | 'fix'>

function packageBreach(file: string, cell: Cell, name: string): Breach | undefined {
  const isOf = (owned: string) => name === owned || name.startsWith(`${owned.replace(/\/$/, '')}/`)
  if (cell.modules !== undefined && !cell.modules.some(isOf)) {
    const allowed = cell.modules.length === 0 ? 'none' : cell.modules.join(', ')
    return {
      fault: `${file} imports ${name}: ${cell.folder}/ owns ${cell.owns} and runs anywhere, so its modules are listed (${allowed})`,
      fix: 'pass the value in as an argument or through a port, or move this code to a folder that may use the module',
    }
  }
  const owned = Object.entries(PACKAGE_OWNERS).find(([pack]) => isOf(pack))
  if (owned === undefined || owned[1].some((folder) => covers(folder, file))) return undefined
  return {
    fault: `${name} belongs to ${owned[1].join(', ')}: a package used everywhere cannot be replaced`,
    fix: `move this code to ${owned[1][0]}/, or call the function there that wraps the package`,
  }
}

function directionBreach(file: string, cell: Cell, edge: Edge, target: string): Rest | undefined {
  const to = cellOf(target)
  if (topOf(target) === TEST_FOLDER && topOf(file) !== TEST_FOLDER) {
    return {
      rule: 'test-import',
      fault: `${target} is test code, which product code and benches must not need`,
      fix: 'move the shared part out of test/, into the folder that owns its subject',
    }
  }
  // A file that imports its own value is a cycle already.
  if (target === file && edge.kind === 'type')
    return {
      rule: 'import-direction',
      fault: `${file} imports itself, so an export of it looks used`,
      fix: 'name the declaration directly',
    }
  if (to === cell) {
    if (!cell.apart || generated(file) || generated(target)) return undefined
    return {
      rule: 'import-direction',
      fault: `${target} is imported by its neighbour, but each file of ${cell.folder}/ is ${cell.owns} alone`,
      fix: 'move the shared part to the folder below that both may import',
    }
  }
  const allowed = allowedFor(cell, edge)
  if (allowed.some((pattern) => pattern === '*' || covers(pattern, target))) return undefined
  const as = edge.kind === 'type' ? ' as a type' : ''
  return {
    rule: 'import-direction',
    fault: `${file} imports ${target}${as}, but ${cell.folder}/ owns ${cell.owns} and may import only ${listed(allowed)}`,
    fix: directionAdvice(cell, edge, target),
  }
}

function allowedFor(cell: Cell, { kind }: Edge): readonly string[] {
  switch (kind) {
    case 'value':
      return cell.values
    case 'type':
      return [...cell.values, ...(cell.types ?? [])]
    case 'later':
      return [...cell.values, ...(cell.later ?? [])]
    case 'url':
    case 'computed':
      return [...cell.values, ...(cell.starts ?? [])]
  }
}

function directionAdvice(cell: Cell, { kind }: Edge, target: string): string {
  if (kind === 'value' && cell.types?.some((pattern) => covers(pattern, target)))
    return 'only its types are allowed here: write `import type`, and pass the value in as an argument'
  if (kind === 'value' && cell.later?.some((pattern) => covers(pattern, target)))
    return 'load it with `await import()` where it is needed'
  return 'move the shared part to a folder below both, or pass it in through a port; the map is CELLS in tools/check/rules.ts'
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'itself' : names.join(', ')
}

export function generated(file: string): boolean {
  return GENERATED.includes(file)
}

type Fields = Readonly<Record<string, unknown>>
type Packages = { readonly product: ReadonlySet<string>; readonly development: ReadonlySet<string> }
type Fault = Pick<Finding, 'rule' | 'fault' | 'fix'>

function packagesOf(tree: Tree): Packages {
  const fields = fieldsOf(tree, 'package.json') ?? {}
  const names = (field: string) => new Set(Object.keys((fields[field] as Fields | undefined) ?? {}))
  return { product: names('dependencies'), development: names('devDependencies') }
}

function packageFault(packages: Packages, file: string, specifier: string): Fault | undefined {
  if (/^(node:|bun:|bun$)/.test(specifier)) return undefined
  const name = /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier
  if (packages.product.has(name)) return undefined
  if (!packages.development.has(name))
    return {
      rule: 'undeclared-package',
      fault: `${specifier} is neither a module of the platform nor a package that package.json declares, so another machine loads another file`,
      fix: 'write `node:` before a module of the platform, a relative path for a file of this tree, or declare the package',
    }
  if (DEVELOPMENT_FOLDERS.includes(topOf(file))) return undefined
  return {
    rule: 'undeclared-package',
    fault: `${name} is a development dependency, which a user of ${topOf(file)}/ does not install`,
    fix: `move it to \`dependencies\` in package.json, or this code to ${DEVELOPMENT_FOLDERS.join(', ')}`,
  }
}

/** Files that change the meaning of specifiers, wherever they are. */
const CONFIGURATIONS = /(^|\/)(package|[jt]sconfig[^/]*)\.json$|(^|\/)bunfig\.toml$|(^|\/)node_modules\//i
/** The same at the root, each read below. */
const READ = ['package.json', 'tsconfig.json', 'bunfig.toml']

/** Packages: each import names a declared one, the product needs no development package, and no name has a second meaning. */
export function checkPackages({ tree }: Graph): Finding[] {
  const found: Finding[] = []
  const add = (file: string, fault: string, fix: string) =>
    found.push({ file, line: 1, rule: 'alias', fault, fix })
  for (const file of tree.keys()) {
    if (CONFIGURATIONS.test(file) && !READ.includes(file))
      add(
        file,
        'it gives imports below it another meaning than the rules see',
        `delete it; ${READ[0]} is at the root`,
      )
  }
  for (const field of aliasFields(tree))
    add(field.file, `\`${field.name}\` gives a module a second name, so imports show another one`, field.fix)
  return found
}

function aliasFields(tree: Tree): { file: string; name: string; fix: string }[] {
  const pack = fieldsOf(tree, 'package.json') ?? {}
  const config = fieldsOf(tree, 'tsconfig.json') ?? {}
  const options = (config['compilerOptions'] as Fields | undefined) ?? {}
  const bun = fieldsOf(tree, 'bunfig.toml') ?? {}
  const path = 'delete it, and import files by relative paths'
  const versions = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap(
    (field) => Object.entries((pack[field] as Fields | undefined) ?? {}),
  )
  return [
    ...ALIAS_FIELDS.filter((name) => name in pack).map((name) => ({ file: 'package.json', name, fix: path })),
    ...versions
      .filter(([, version]) => !/^\d+\.\d+\.\d+[\w.+-]*$/.test(String(version)))
      .map(([name]) => ({ file: 'package.json', name, fix: 'name the exact version of the registry' })),
    ...ALIAS_OPTIONS.filter((name) => name in options || name in config).map((name) => ({
      file: 'tsconfig.json',
      name,
      fix: path,
    })),
    ...['preload', 'define', 'loader', 'plugins']
      .filter((name) => name in bun)
      .map((name) => ({ file: 'bunfig.toml', name, fix: 'delete it; `[test]` may load files of test/' })),
  ]
}

function fieldsOf(tree: Tree, file: string): Fields | undefined {
  const text = tree.get(file)
  if (text === undefined) return undefined
  return (file.endsWith('.toml') ? Bun.TOML.parse(text) : Bun.JSONC.parse(text)) as Fields
}
