/** A file or heading that a comment or document names exists: a broken citation hides the half of a comment that says why. */
import type { Finding } from './finding'
import { folderOf, type Graph } from './module_graph'
import { DESIGN_FOLDER, FOREIGN_FILES, HISTORIES } from './rules'

/** Prose with the line that each piece of it begins on. */
type Prose = { readonly file: string; readonly line: number; readonly text: string }

export function checkCitations(graph: Graph): Finding[] {
  const known = namesOf(graph.tree.keys())
  return proseOf(graph).flatMap((prose) => [...missingFiles(known, prose), ...missingHeadings(graph, prose)])
}

/** Comments of code; the whole text of documents, of the container files and of package.json, whose scripts name files. */
function proseOf({ tree, sources }: Graph): Prose[] {
  const found: Prose[] = []
  for (const [file, text] of tree) {
    const source = sources.get(file)
    if (source !== undefined) {
      for (const comment of source.comments) found.push({ file, line: comment.line, text: comment.text })
    } else if (file.endsWith('.rs')) {
      for (const match of text.matchAll(/(?:^[ \t]*\/\/.*\n)+/gm))
        found.push({ file, line: lineAt(text, match.index), text: match[0] })
    } else if (
      /\.(md|yaml|toml|html)$|(^|\/)(Dockerfile|package\.json)$|^\.ci\/run$/.test(file) &&
      !HISTORIES.includes(file)
    ) {
      found.push({ file, line: 1, text })
    }
  }
  return found
}

/** Every file, and every ending of its path that a citation may use: `check/rules.ts` for `tools/check/rules.ts`. */
function namesOf(files: Iterable<string>): Set<string> {
  const names = new Set<string>()
  for (const file of files) {
    names.add(file)
    for (let at = file.indexOf('/'); at !== -1; at = file.indexOf('/', at + 1)) names.add(file.slice(at + 1))
  }
  return names
}

const PATH = /(?<![\w@:./*<>{}$…-])(?:\.{0,2}\/)?[\w[\]./-]*\w\.(?:ts|rs|md|py|so)(?![\w-]|\.\w|\/)/g
/** A part of a recipe that the reader fills in: `decide_X.ts`, `routes/PATH.METHOD.ts`. */
const PLACEHOLDER = /(^|[_/.-])(X|PATH|METHOD|NAME|N)([_/.-]|$)/

function missingFiles(known: ReadonlySet<string>, { file, line, text }: Prose): Finding[] {
  const found: Finding[] = []
  for (const match of text.matchAll(PATH)) {
    // A Markdown link begins with a bracket that is not part of the name; a route's parameter has both brackets.
    const path = match[0].replace(/^\[(?![^[]*\])/, '').replace(/^\.\//, '')
    if (PLACEHOLDER.test(path) || FOREIGN_FILES.some((foreign) => foreign.test(path))) continue
    if (known.has(path) || known.has(relative(file, path))) continue
    found.push({
      file,
      line: line + lineAt(text, match.index) - 1,
      rule: 'cited-file',
      fault: `${path} is named here and does not exist, so the reader cannot follow`,
      fix: 'correct the name; a file of another project belongs to FOREIGN_FILES in tools/check/rules.ts',
    })
  }
  return found
}

function relative(file: string, path: string): string {
  const parts = folderOf(file).split('/').filter(Boolean)
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}

const HEADINGS = /\b([a-z_]+\.md)\s+((?:"[^"]+"(?:,\s+(?:and\s+)?|\s+and\s+)?)+)/g

/** `protocol.md "Order of checks"`: the document of that name in the design folder has that heading. */
function missingHeadings({ tree }: Graph, { file, line, text }: Prose): Finding[] {
  const plain = text.replace(/\n[ \t]*(\*|\/\/[/!]?)?[ \t]*/g, (gap) => ' '.repeat(gap.length))
  const found: Finding[] = []
  for (const match of plain.matchAll(HEADINGS)) {
    const document = tree.get(`${DESIGN_FOLDER}/${match[1]}`)
    if (document === undefined) continue
    const headings = [...document.matchAll(/^#+\s+(.*)$/gm)].map((heading) => normal(heading[1]!))
    for (const [, cited] of match[2]!.matchAll(/"([^"]+)"/g)) {
      const wanted = normal(cited!.replace(/,$/, ''))
      if (headings.some((heading) => heading.includes(wanted))) continue
      found.push({
        file,
        line: line + lineAt(text, match.index) - 1,
        rule: 'cited-heading',
        fault: `${DESIGN_FOLDER}/${match[1]} has no heading "${cited}", so the reader cannot follow`,
        fix: 'cite the heading by the words it has now',
      })
    }
  }
  return found
}

function normal(text: string): string {
  return text
    .replace(/[`*\s]+/g, ' ')
    .trim()
    .toLowerCase()
}

function lineAt(text: string, offset: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line++
  return line
}
