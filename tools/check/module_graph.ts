/**
 * The files of a tree with their imports resolved to files. No cycle of value imports; a cycle that only types close stays
 * inside one folder.
 */

import { lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Import, parseSource, type Source } from './parse_source'

/** `target` is a file of the tree, or a folder that a URL names; undefined for packages and for paths that do not exist. */
export type Edge = Import & { readonly from: string; readonly target: string | undefined }
export type Graph = {
  readonly tree: Tree
  readonly sources: ReadonlyMap<string, Source>
  readonly edges: ReadonlyMap<string, readonly Edge[]>
}

export function openGraph(tree: Tree): Graph {
  const sources = new Map<string, Source>()
  for (const [file, text] of tree)
    if (file.endsWith('.ts') && isPlainFile(text)) sources.set(file, parseSource(file, text))
  const edges = new Map<string, Edge[]>()
  for (const [file, source] of sources) {
    edges.set(
      file,
      source.imports.map((one) => ({ ...one, from: file, target: resolve(tree, one) })),
    )
  }
  return { tree, sources, edges }
}

function resolve(tree: Tree, { path, kind, specifier }: Import): string | undefined {
  if (path === undefined) return undefined
  // A folder's name leads to its `index.ts` unseen: imports name the file.
  const names_folder = /(^|\/)\.{0,2}$/.test(specifier)
  if (!names_folder) for (const file of [path, `${path}.ts`]) if (tree.has(file)) return file
  if (kind !== 'url') return undefined
  // A URL may name the root of the tree or one of its folders.
  if (path === '.' || path === './') return './'
  const folder = `${path.replace(/\/$/, '')}/`
  return [...tree.keys()].some((file) => file.startsWith(folder)) ? folder : undefined
}

type Cycle = {
  /** Every file of the component, sorted. */
  readonly files: readonly string[]
  /** One way round: each edge leads to the next, the last back to the first. */
  readonly way: readonly Edge[]
}

/** Components of more than one file, or of one that imports itself, over the edges that `follows` lets through. */
function cyclesOf(graph: Graph, follows: (edge: Edge) => boolean): Cycle[] {
  const next = new Map<string, Edge[]>()
  for (const [file, edges] of graph.edges) {
    next.set(
      file,
      edges.filter((edge) => edge.target !== undefined && graph.edges.has(edge.target) && follows(edge)),
    )
  }
  return components(next)
    .filter((files) => files.length > 1 || next.get(files[0]!)!.some((edge) => edge.target === files[0]))
    .map((files) => ({ files: files.sort(), way: wayRound(next, new Set(files)) }))
}

/** The shortest cycle inside a component, preferring one that leaves its folder. */
function wayRound(next: ReadonlyMap<string, readonly Edge[]>, members: ReadonlySet<string>): Edge[] {
  const starts = [...members]
    .sort()
    .flatMap((file) => next.get(file)!.filter((edge) => members.has(edge.target!)))
  const crossing = starts.filter((edge) => folderOf(edge.from) !== folderOf(edge.target!))
  let best: Edge[] | undefined
  for (const first of crossing.length > 0 ? crossing : starts) {
    const back = shortestWay(next, members, first.target!, first.from)
    if (best === undefined || back.length + 1 < best.length) best = [first, ...back]
  }
  return best!
}

function shortestWay(
  next: ReadonlyMap<string, readonly Edge[]>,
  members: ReadonlySet<string>,
  from: string,
  to: string,
): Edge[] {
  const reached = new Map<string, Edge | undefined>([[from, undefined]])
  for (const file of reached.keys()) {
    if (file === to) break
    for (const edge of next.get(file)!) {
      if (members.has(edge.target!) && !reached.has(edge.target!)) reached.set(edge.target!, edge)
    }
  }
  const way: Edge[] = []
  for (let edge = reached.get(to); edge !== undefined; edge = reached.get(edge.from)) way.unshift(edge)
  return way
}

/** Tarjan's strongly connected components. */
function components(next: ReadonlyMap<string, readonly Edge[]>): string[][] {
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const open: string[] = []
  const found: string[][] = []
  const enter = (file: string) => {
    index.set(file, index.size)
    low.set(file, index.get(file)!)
    open.push(file)
    for (const { target } of next.get(file)!) {
      if (!index.has(target!)) {
        enter(target!)
        low.set(file, Math.min(low.get(file)!, low.get(target!)!))
      } else if (open.includes(target!)) low.set(file, Math.min(low.get(file)!, index.get(target!)!))
    }
    if (low.get(file) === index.get(file)) found.push(open.splice(open.indexOf(file)))
  }
  for (const file of next.keys()) if (!index.has(file)) enter(file)
  return found
}

export function folderOf(path: string): string {
  const end = path.lastIndexOf('/')
  return end === -1 ? '' : path.slice(0, end)
}

export function topOf(path: string): string {
  const end = path.indexOf('/')
  return end === -1 ? path : path.slice(0, end)
}

/** Path from the root, with `/`, to text. Files that are not text count as present and empty. */
export type Tree = ReadonlyMap<string, string>

/** Replaces the text of a link or of a folder with its own repository. */
export const NOT_A_FILE = '\0'
export function isPlainFile(text: string): boolean {
  return text !== NOT_A_FILE
}

/** Files worth reading: the others (binaries, vectors, lockfiles) only have to exist. */
const TEXT = /(\.(ts|rs|md|json|yaml|yml|toml|html|css|py|sh)|(^|\/)(Dockerfile|run))$/
const OPAQUE = /^(test\/(vectors|golden)\/|bun\.lock$)/

/** @throws Error when `root` is not a git checkout. */
export function readTree(root: string): Tree {
  const listing = Bun.spawnSync(['git', 'ls-files', '-co', '--exclude-standard', '-z'], { cwd: root })
  if (!listing.success) throw new Error(`${root}: git ls-files failed; the check runs in a git checkout`)
  const tree = new Map<string, string>()
  for (const file of listing.stdout.toString().split('\0').filter(Boolean).sort()) {
    const path = join(root, file)
    const entry = lstatSync(path, { throwIfNoEntry: false })
    // A deleted file stays listed until its deletion is staged.
    if (entry === undefined) continue
    if (!entry.isFile()) tree.set(file, NOT_A_FILE)
    else tree.set(file, TEXT.test(file) && !OPAQUE.test(file) ? readFileSync(path, 'utf8') : '')
  }
  return tree
}

/** One violation of a rule, and the line that reports it: place, rule, reason and next step. */
export type Finding = {
  readonly file: string
  readonly line: number
  readonly rule: string
  /** The violation, and why it matters in half a sentence. */
  readonly fault: string
  readonly fix: string
}

/** `file:line  rule  fault. Next: fix.` */
export function findingText({ file, line, rule, fault, fix }: Finding): string {
  return `${file}:${line}  ${rule}\n    ${fault}.\n    Next: ${fix}.`
}

export function byPlace(a: Finding, b: Finding): number {
  return compareTexts(a.file, b.file) || a.line - b.line || compareTexts(a.rule, b.rule)
}

export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Imports that run when their file is loaded. */
function valueCycles(graph: Graph): Cycle[] {
  return cyclesOf(graph, ({ kind, at_load }) => kind === 'value' || at_load === true)
}

function typeCycles(graph: Graph): Cycle[] {
  return cyclesOf(graph, ({ kind, at_load }) => kind === 'value' || kind === 'type' || at_load === true)
}

function leavesFolder({ files }: Cycle): boolean {
  return new Set(files.map(folderOf)).size > 1
}

export function checkCycles(graph: Graph): Finding[] {
  const values = valueCycles(graph)
  const inValues = new Set(values.flatMap(({ files }) => files))
  const types = typeCycles(graph).filter(
    (cycle) => leavesFolder(cycle) && !cycle.files.every((file) => inValues.has(file)),
  )
  return [
    ...values.map((cycle) =>
      finding(
        cycle,
        'value-cycle',
        'which of them runs first depends on who is imported first',
        'move the shared declarations into a file that imports neither',
      ),
    ),
    ...types.map((cycle) =>
      finding(
        cycle,
        'type-cycle',
        'a type cycle across folders makes one component of them',
        'move the type to the lower folder, or to a file that both import',
      ),
    ),
  ]
}

function finding(cycle: Cycle, rule: string, why: string, fix: string): Finding {
  const [first] = cycle.way
  const way = [...cycle.way.map((edge) => edge.from), first!.from].join(' -> ')
  const size =
    cycle.files.length > cycle.way.length ? ` (${cycle.files.length} files depend on each other)` : ''
  return { file: first!.from, line: first!.line, rule, fault: `${way}${size}: ${why}`, fix }
}
