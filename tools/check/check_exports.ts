/** Every export is used by another file; an export without an importer is dead or private. */
import type { Finding } from './finding'
import { type Edge, type Graph, topOf } from './module_graph'
import { namespaceNames } from './parse_imports'
import type { Export, Source } from './parse_source'
import { PUBLIC_EXPORTS } from './rules'

/** Files that import each export, by file and by exported name. */
type Uses = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>

export function usesOf(graph: Graph): Uses {
  const uses = new Map<string, Map<string, Set<string>>>()
  const followed = new Set<string>()
  const use = (file: string, name: string, by: string, edge?: Edge): void => {
    const owner = facesOf(graph, file).find((one) => one.exports.some((each) => each.name === name))
    // A file that imports itself shows nothing.
    if (owner === undefined || owner.file === by) return
    const names = uses.get(owner.file) ?? new Map<string, Set<string>>()
    uses.set(owner.file, names.set(name, (names.get(name) ?? new Set()).add(by)))
    const inner = graph.edges.get(owner.file)?.find(({ namespace }) => namespace === name)?.target
    if (inner === undefined) return
    const members = membersOf(graph, name, edge)
    const step = [owner.file, name, by, ...members].join(' ')
    if (followed.has(step)) return
    followed.add(step)
    if (members.includes('*')) useAll(inner, by)
    else for (const member of members) use(inner, member, by)
  }
  const useAll = (file: string, by: string): void => {
    for (const { file: face, exports } of facesOf(graph, file))
      for (const { name } of exports) use(face, name, by)
  }
  for (const [file, edges] of graph.edges) {
    for (const edge of edges) {
      const { target, names, kind, passes_on, namespace } = edge
      if (target === undefined || kind === 'url') continue
      if (passes_on && !PUBLIC_EXPORTS.includes(file)) continue
      if (names.includes('*') || (namespace !== undefined && PUBLIC_EXPORTS.includes(file)))
        useAll(target, file)
      else for (const name of names) use(target, name, file, edge)
    }
  }
  return uses
}

/** Members that an importer reads of a namespace that another file passes on by name. */
function membersOf(graph: Graph, name: string, edge: Edge | undefined): readonly string[] {
  const local = edge?.locals?.get(name)
  return local === undefined ? ['*'] : namespaceNames(graph.sources.get(edge!.from)!.program, local)
}

/** The file and every file that it passes on with `export *`. */
function facesOf(graph: Graph, file: string): Source[] {
  const faces = new Set([file])
  for (const face of faces) {
    for (const { passes_on, target } of graph.edges.get(face) ?? []) {
      if (passes_on && target !== undefined) faces.add(target)
    }
  }
  return [...faces].flatMap((face) => graph.sources.get(face) ?? [])
}

export function isPublic(file: string, { name }: Export): boolean {
  return PUBLIC_EXPORTS.some((one) =>
    one.endsWith('/') ? name === 'default' && file.startsWith(one) : one === file,
  )
}

export function checkExports(graph: Graph): Finding[] {
  const uses = usesOf(graph)
  return [...graph.sources].flatMap(([file, source]) =>
    source.exports
      .filter((one) => !isPublic(file, one) && !uses.get(file)?.has(one.name))
      .map((one) => {
        const own = new RegExp(`\\b${one.name.replace(/\$/g, '\\$')}\\b`, 'g')
        const used_here = one.declared && (source.text.match(own)?.length ?? 0) > 1
        return {
          file,
          line: one.line,
          rule: 'unused-export',
          fault: used_here
            ? `${one.name} is used only in its own file, and an export promises a reader other users`
            : `No file imports ${one.name}, so nothing shows that it works`,
          fix: used_here ? 'drop `export`' : 'delete it',
        }
      }),
  )
}

/** `tests` and `benches` are not part of the product. */
export function isProduct(file: string): boolean {
  return topOf(file) !== 'test' && topOf(file) !== 'bench'
}
