/** Measures the tree and prints the figures as tables; nothing here fails. */
import { leavesFolder, typeCycles, valueCycles } from './check_cycles'
import { entriesOf } from './check_files'
import { generated } from './check_imports'
import { compareTexts } from './finding'
import { type Graph, topOf } from './module_graph'
import { LIMITS } from './rules'

export function reportText(graph: Graph): string {
  return [sizes(graph), folders(graph), cycles(graph), functions(graph)].join('\n\n')
}

function table(rows: readonly (readonly (string | number)[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => String(row[column]).length)))
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? String(cell).padEnd(widths[0]!) : String(cell).padStart(widths[column]!),
        )
        .join('  '),
    )
    .join('\n')
}

function sizes({ tree }: Graph): string {
  const tops = Map.groupBy(
    [...tree].filter(([file]) => /\.(ts|rs|py)$/.test(file) && file.includes('/') && !generated(file)),
    ([file]) => topOf(file),
  )
  const rows = [...tops]
    .sort((a, b) => compareTexts(a[0], b[0]))
    .map(([top, files]) => {
      const lines = files.map(([, text]) => text.split('\n').length - 1).sort((a, b) => a - b)
      return [top, files.length, sum(lines), lines[lines.length >> 1]!, lines.at(-1)!]
    })
  const product = rows.filter(([top]) => top !== 'test' && top !== 'bench')
  const total = (label: string, of: typeof rows) => [
    label,
    sum(of.map((row) => row[1] as number)),
    sum(of.map((row) => row[2] as number)),
    '',
    '',
  ]
  return table([
    ['code', 'files', 'lines', 'median', 'longest'],
    ...rows,
    total('product', product),
    total('all', rows),
  ])
}

function folders({ tree }: Graph): string {
  const counts = [...entriesOf(tree.keys())].filter(([folder]) => folder !== '')
  const large = counts.filter(([, entries]) => entries > LIMITS.folder_entries).sort((a, b) => b[1] - a[1])
  return table([
    ['folders', counts.length],
    [`with more than ${LIMITS.folder_entries} entries`, large.length],
    ...large.map(([folder, n]) => [`  ${folder}`, n]),
  ])
}

function cycles(graph: Graph): string {
  const types = typeCycles(graph)
  const rows: [string, number][] = [
    ['cycles of value imports', valueCycles(graph).length],
    ['cycles with types', types.length],
    ['cycles with types across folders', types.filter(leavesFolder).length],
  ]
  const lines = types.map((cycle) => {
    const across = leavesFolder(cycle) ? 'across folders' : 'in one folder'
    return `  ${across}, ${cycle.files.length} files: ${[...cycle.way.map(({ from }) => from), cycle.way[0]!.from].join(' -> ')}`
  })
  return `${table([['cycles', ''], ...rows])}\n${lines.join('\n')}`
}

function functions({ sources }: Graph): string {
  const all = [...sources.values()].flatMap(({ file, functions }) =>
    functions.map((one) => ({ ...one, file })),
  )
  const long = all.filter(({ lines }) => lines > LIMITS.function_lines).sort((a, b) => b.lines - a.lines)
  const rows = long.map(({ file, line, lines, name }) => `  ${file}:${line} ${name}, ${lines} lines`)
  return `${table([
    ['functions', all.length],
    [`longer than ${LIMITS.function_lines} lines`, long.length],
  ])}\n${rows.join('\n')}`
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
