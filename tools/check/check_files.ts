/** The shape of files: names, sizes, lines, opening sentences, unfinished work, and how many entries a folder has. */
import { generated } from './check_imports'
import { compareTexts, type Finding, folderOf, type Graph, isPlainFile, topOf } from './module_graph'
import {
  EMPTY_NAMES,
  FREELY_NAMED,
  LARGE_FOLDERS,
  LIMITS,
  LONG_FUNCTIONS,
  TEST_FOLDER,
  UNFINISHED,
} from './rules'

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
