/** Who may import whom: the cells of the map, the faces of the packages, the owners of the frameworks. */
import type { Finding } from './finding'
import { type Edge, folderOf, type Graph, topOf } from './module_graph'
import { CELLS, type Cell, PACKAGE_OWNERS, TEST_FOLDER } from './rules'

export function checkImports(graph: Graph): Finding[] {
  return [
    ...unknownFolders(graph),
    ...[...graph.edges].flatMap(([file, edges]) => edges.flatMap((edge) => checkEdge(file, edge) ?? [])),
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

function checkEdge(file: string, edge: Edge): Finding | undefined {
  const cell = cellOf(file)
  if (cell === undefined) return undefined
  const place = { file, line: edge.line }
  if (edge.path === undefined) {
    const breach = edge.kind === 'url' ? undefined : packageBreach(file, cell, edge.specifier)
    return breach && { ...place, rule: 'package-owner', ...breach }
  }
  if (edge.target === undefined) {
    // tsc reports an import that leads nowhere; it does not look at URLs.
    if (edge.kind !== 'url') return undefined
    return {
      ...place,
      rule: 'missing-file',
      fault: `${edge.specifier} does not exist, so the URL fails when it is used`,
      fix: 'correct the path',
    }
  }
  const breach = directionBreach(file, cell, edge, edge.target)
  return breach && { ...place, ...breach }
}

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

function directionBreach(
  file: string,
  cell: Cell,
  edge: Edge,
  target: string,
): Pick<Finding, 'rule' | 'fault' | 'fix'> | undefined {
  const to = cellOf(target)
  if (topOf(target) === TEST_FOLDER && topOf(file) !== TEST_FOLDER) {
    return {
      rule: 'test-import',
      fault: `${target} is test code, which product code and benches must not need`,
      fix: 'move the shared part out of test/, into the folder that owns its subject',
    }
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
  return file.endsWith('.gen.ts')
}
