/**
 * Checks the shape of files: names, sizes, lines, opening sentences, unfinished work; and that files named in a comment exist.
 */
import { generated } from './check_imports'
import {
  compareTexts,
  type Finding,
  folderOf,
  type Graph,
  isPlainFile,
  type Tree,
  topOf,
} from './module_graph'
import {
  DOCUMENT_FOLDERS,
  DOCUMENTED_FOLDERS,
  EMPTY_NAMES,
  FOREIGN_FILES,
  FREELY_NAMED,
  HABITS,
  HISTORIES,
  LARGE_FOLDERS,
  LIMITS,
  LONG_FUNCTIONS,
  TEST_FOLDER,
  UNFINISHED,
} from './rules'
import { walk } from './syntax'

export function checkFiles(graph: Graph): Finding[] {
  const code = [...graph.tree].filter(
    ([file]) => /\.(ts|rs|py)$/.test(file) && !generated(file) && !file.endsWith('.d.ts'),
  )
  return [
    ...code.flatMap(([file, text]) => [...nameFaults(file), ...textFaults(file, text)]),
    ...unreadFiles(graph),
    ...longFunctions(graph),
    ...largeFolders(graph),
  ]
}

/** Every file that runs is one that the other checks read. */
function unreadFiles({ tree }: Graph): Finding[] {
  return [...tree].flatMap(([file, text]) => {
    if (!isPlainFile(text))
      return {
        file,
        line: 1,
        rule: 'plain-file',
        fault: 'a link gives a file a second path, with the rights of another folder',
        fix: 'delete it, and name the file by its own path',
      }
    if (!/\.[cm]?[jt]sx?$/i.test(file) || (file.endsWith('.ts') && !file.endsWith('.d.ts'))) return []
    return {
      file,
      line: 1,
      rule: 'plain-file',
      fault: 'source files end in `.ts`; the checks read no others',
      fix: 'rename it, or write it in TypeScript',
    }
  })
}

function nameFaults(file: string): Finding[] {
  const name = file.slice(file.lastIndexOf('/') + 1)
  const at = { file, line: 1 }
  if (EMPTY_NAMES.test(name)) {
    const fix = 'name the file after its one operation or concept'
    return [{ ...at, rule: 'file-name', fault: `${name} does not describe the content`, fix }]
  }
  if (name.endsWith('.gen.ts')) {
    const fault = `${name} looks generated, which would free it from the limits of code that is read`
    return [
      { ...at, rule: 'file-name', fault, fix: 'rename it, or add it to GENERATED in tools/check/rules.ts' },
    ]
  }
  if (FREELY_NAMED.includes(topOf(file)) || /^_{0,2}[a-z0-9_]+(\.test)?\.(ts|rs|py)$/.test(name)) return []
  return [
    {
      ...at,
      rule: 'file-name',
      fault: `${name} is not snake_case, as every other name is`,
      fix: 'rename it',
    },
  ]
}

function textFaults(file: string, text: string): Finding[] {
  const found: Finding[] = []
  const add = (line: number, rule: string, fault: string, fix: string) =>
    found.push({ file, line, rule, fault, fix })
  const lines = text.replace(/\n$/, '').split('\n')
  if (lines.length > LIMITS.file_lines) {
    const fault = `${lines.length} lines; a file has at most ${LIMITS.file_lines}, so that it is read as a whole`
    add(LIMITS.file_lines + 1, 'file-length', fault, 'split it where its concepts divide')
  }
  lines.forEach((line, index) => {
    // Biome wraps code; a string or an address cannot be wrapped.
    if (line.length > LIMITS.columns && !/['`"]|https?:/.test(line))
      add(
        index + 1,
        'line-length',
        `${line.length} columns; at most ${LIMITS.columns} fit beside a second file`,
        'wrap it',
      )
    const word = UNFINISHED.exec(line)?.[0]
    if (word !== undefined && !file.startsWith('tools/check/'))
      add(
        index + 1,
        'unfinished',
        `"${word}" marks work that is not done`,
        'do it, or write an issue and delete the mark',
      )
    const habit = /^\s*(\/[/*]|\*|# )/.test(line) ? HABITS.exec(line)?.[0].trim() : undefined
    if (habit !== undefined && !file.startsWith('tools/check/'))
      add(
        index + 1,
        'prose-habit',
        `"${habit}" leaves the subject of the comment open`,
        'name the subject: the field\'s term, with a verb (docs/design/house.md "Language")',
      )
  })
  if (!opens(file, text))
    add(
      1,
      'opening-sentence',
      'The file does not begin with a comment that describes it',
      'write one sentence with a verb',
    )
  return found
}

/** The first comment is a sentence of three words or more. A route writes it above its one export, where Swagger reads it. */
function opens(file: string, text: string): boolean {
  const head = text.replace(/^#!.*\n/, '').replace(/^# -\*-.*\n/, '')
  const comment =
    topOf(file) === 'routes'
      ? /\/\*\*[\s\S]*?\*\//.exec(head)?.[0]
      : /^(\/\*[\s\S]*?\*\/|(\/\/.*\n)+|"""[\s\S]*?"""|(#.*\n)+)/.exec(head)?.[0]
  if (comment === undefined) return false
  const words = comment.replace(/[*/#!"]+/g, ' ').trim()
  return words.split(/\s+/).length >= 3 && /[.:;?)`]/.test(words)
}

function longFunctions({ sources }: Graph): Finding[] {
  const listed = new Set(Object.keys(LONG_FUNCTIONS))
  const found: Finding[] = []
  for (const { file, functions, top_level } of sources.values()) {
    // A test file is a list of tests, each of which is a function.
    for (const { name, line, lines } of topOf(file) === TEST_FOLDER ? functions : [...functions, top_level]) {
      if (lines <= LIMITS.function_lines) continue
      if (listed.delete(`${file} ${name}`)) continue
      found.push({
        file,
        line,
        rule: 'function-length',
        fault: `${name} has ${lines} lines; a function has at most ${LIMITS.function_lines}, so that it fits on a screen`,
        fix: 'take out a step that has a name; a dispatch table or state machine goes to LONG_FUNCTIONS in tools/check/rules.ts, with a reason',
      })
    }
  }
  for (const entry of listed) {
    const file = entry.split(' ')[0]!
    const fault = `LONG_FUNCTIONS lists ${entry}, which is short or gone`
    found.push({
      file,
      line: 1,
      rule: 'function-length',
      fault,
      fix: 'delete the entry in tools/check/rules.ts',
    })
  }
  return found
}

/** Files and folders directly in each folder, generated files excepted. */
function entriesOf(files: Iterable<string>): Map<string, number> {
  const entries = new Map<string, Set<string>>()
  for (const file of files) {
    if (generated(file)) continue
    for (let path = file; path !== ''; path = folderOf(path)) {
      const names = entries.get(folderOf(path)) ?? new Set()
      entries.set(folderOf(path), names.add(path))
    }
  }
  return new Map(
    [...entries]
      .map(([folder, names]) => [folder, names.size] as const)
      .sort((a, b) => compareTexts(a[0], b[0])),
  )
}

function largeFolders({ tree }: Graph): Finding[] {
  return [...entriesOf(tree.keys())].flatMap(([folder, entries]) => {
    const excepted = Object.keys(LARGE_FOLDERS).some((one) => folder === one || folder.startsWith(`${one}/`))
    // The root holds the files that tools look for there.
    if (folder === '' || excepted || entries <= LIMITS.folder_entries) return []
    return {
      file: folder,
      line: 1,
      rule: 'folder-size',
      fault: `${folder}/ has ${entries} entries; a folder has at most ${LIMITS.folder_entries}, so that a reader sees its parts`,
      fix: 'group the files that change together into a sub-folder, with a cell in tools/check/rules.ts if it is a part of the engine',
    }
  })
}

/** Prose with the line that each piece of it begins on. */
type Prose = { readonly file: string; readonly line: number; readonly text: string }

export function checkCitations(graph: Graph): Finding[] {
  const names = namesOf(graph.tree.keys())
  const headings = headingsOf(graph.tree)
  return proseOf(graph).flatMap((prose) => [
    ...missingFiles(names, prose),
    ...missingHeadings(headings, prose),
    ...(prose.file.endsWith('.md') ? missingLinks(names, headings, prose) : []),
  ])
}

/** Comments and strings of code; the whole text of documents, container files and package.json, whose scripts name files. */
function proseOf({ tree, sources }: Graph): Prose[] {
  const found: Prose[] = []
  for (const [file, text] of tree) {
    const source = sources.get(file)
    if (source !== undefined) {
      for (const comment of source.comments) found.push({ file, line: comment.line, text: comment.text })
      const documented = DOCUMENTED_FOLDERS.some((folder) => file.startsWith(`${folder}/`))
      // Texts of tests are material; other code names documents, and paths that its user fills in.
      if (documented || (topOf(file) !== TEST_FOLDER && text.includes('.md')))
        walk(source.program, undefined, (node, parent) => {
          if (node.type !== 'TemplateLiteral' && typeof node.value !== 'string') return
          if (/^(Import|Export(All|Named))/.test(parent!.type) || node.type === 'TemplateElement') return
          const written = text.slice(node.start, node.end).replace(/\\n/g, '  ')
          if (documented || written.includes('.md'))
            found.push({ file, line: source.lineOf(node.start), text: written })
        })
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

type Names = {
  /** Every file, and every ending of its path that a citation may use: `check/rules.ts` for `tools/check/rules.ts`. */
  readonly files: ReadonlySet<string>
  readonly folders: ReadonlySet<string>
}

function namesOf(paths: Iterable<string>): Names {
  const files = new Set<string>()
  const folders = new Set<string>()
  for (const file of paths) {
    files.add(file)
    for (let at = file.indexOf('/'); at !== -1; at = file.indexOf('/', at + 1)) {
      files.add(file.slice(at + 1))
      folders.add(file.slice(0, at))
    }
  }
  return { files, folders }
}

const BEFORE = '(?<![\\w@:./*<>{}$…-])'
/** A source or document under any name; data with its folder; a folder of this tree. */
const CITED = new RegExp(
  `${BEFORE}(?:` +
    '(?:\\.{0,2}/)?[\\w[\\]./-]*\\w\\.(?:ts|rs|md|py|so)(?![\\w-]|\\.\\w|/)|' +
    '(?:\\.{1,2}/)?[\\w[\\].-]+/[\\w[\\]./-]*\\w\\.(?:json|ya?ml|toml|css|html)(?![\\w-]|\\.\\w|/)|' +
    '[a-z]+/(?:[\\w[\\].-]+/)+(?![\\w[*<>{}$…-]))',
  'g',
)
/** A part of a recipe that the reader fills in: `decide_X.ts`, `routes/PATH.METHOD.ts`. */
const PLACEHOLDER = /(^|[_/.-])(X|PATH|METHOD|NAME|N)([_/.-]|$)/

function missingFiles(names: Names, { file, line, text }: Prose): Finding[] {
  const found: Finding[] = []
  for (const match of text.matchAll(CITED)) {
    // A Markdown link begins with a bracket that is not part of the name; a route's parameter has both brackets.
    const path = match[0].replace(/^\[(?![^[]*\])/, '').replace(/^\.\//, '')
    if (PLACEHOLDER.test(path) || FOREIGN_FILES.some((foreign) => foreign.test(path))) continue
    if (path.endsWith('/') && !names.folders.has(topOf(path))) continue
    if (!exists(names, file, path)) found.push(missingFile(file, line + lineAt(text, match.index) - 1, path))
  }
  return found
}

function exists({ files, folders }: Names, file: string, path: string): boolean {
  if (!path.endsWith('/')) return files.has(path) || files.has(relative(file, path))
  return folders.has(path.slice(0, -1)) || folders.has(relative(file, path.slice(0, -1)))
}

function missingFile(file: string, line: number, path: string): Finding {
  return {
    file,
    line,
    rule: 'cited-file',
    fault: `${path} is named here and does not exist, so the reader cannot follow`,
    fix: 'correct the name; a file of another project belongs to FOREIGN_FILES in tools/check/rules.ts',
  }
}

function relative(file: string, path: string): string {
  const parts = folderOf(file).split('/').filter(Boolean)
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}

/** The headings of each document, as they are written. */
type Headings = ReadonlyMap<string, readonly string[]>

function headingsOf(tree: Tree): Headings {
  return new Map(
    [...tree]
      .filter(([file]) => file.endsWith('.md'))
      .map(([file, text]) => [file, [...text.matchAll(/^#+\s+(.*)$/gm)].map((heading) => heading[1]!)]),
  )
}

const QUOTED = `(?:"[^"]+"|'[^']+')`
const CITED_HEADINGS = new RegExp(
  `([\\w./-]*\\w\\.md)[\`)\\]]*,?\\s+(§|${QUOTED}(?:(?:,\\s+(?:and\\s+)?|\\s+and\\s+)${QUOTED})*)`,
  'g',
)

/** `protocol.md "Order of checks"`: a document of that name has that heading, as a whole. */
function missingHeadings(headings: Headings, { file, line, text }: Prose): Finding[] {
  const plain = text.replace(/\n[ \t]*(\*|\/\/[/!]?)?[ \t]*/g, (gap) => ' '.repeat(gap.length))
  const found: Finding[] = []
  for (const match of plain.matchAll(CITED_HEADINGS)) {
    const [, name, list] = match
    const paths = [...DOCUMENT_FOLDERS.map((folder) => `${folder}/${name}`), name!, relative(file, name!)]
    const documents = paths.filter((path) => headings.has(path))
    // A document that does not exist is a missing file.
    if (documents.length === 0) continue
    const known = new Set(documents.flatMap((path) => headings.get(path)!.map(normal)))
    for (const [cited] of list!.matchAll(new RegExp(`§|${QUOTED}`, 'g'))) {
      const heading = cited.slice(1, -1)
      if (known.has(normal(heading.replace(/,$/, '')))) continue
      found.push({
        file,
        line: line + lineAt(text, match.index) - 1,
        rule: 'cited-heading',
        fault:
          cited === '§'
            ? `${documents[0]} has no numbered sections, so the reader cannot follow "§"`
            : `${documents[0]} has no heading "${heading}", so the reader cannot follow`,
        fix: 'cite the whole heading by the words it has now, in double quotes',
      })
    }
  }
  return found
}

/** Links of a document lead to a file or folder of the tree, and their anchors to a heading. */
function missingLinks(names: Names, headings: Headings, { file, text }: Prose): Finding[] {
  const found: Finding[] = []
  for (const match of text.matchAll(/\]\(([^)#\s]*)(?:#([^)\s]*))?\)/g)) {
    const [, path, anchor] = match
    if (/^[a-z]+:/.test(path!)) continue
    const line = lineAt(text, match.index)
    const target = path === '' ? file : relative(file, path!.replace(/\/$/, ''))
    // Names with an extension are found in the text already.
    if (!names.files.has(target) && !names.folders.has(target)) {
      if (!new RegExp(CITED).test(path!)) found.push(missingFile(file, line, path!))
    } else if (anchor !== undefined && !headings.get(target)?.some((one) => anchorOf(one) === anchor))
      found.push({
        file,
        line,
        rule: 'cited-heading',
        fault: `${target} has no heading for #${anchor}, so the link leads to its top`,
        fix: 'correct the anchor: the heading in lower case, with a hyphen for each space',
      })
  }
  return found
}

function anchorOf(heading: string): string {
  return normal(heading)
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
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
