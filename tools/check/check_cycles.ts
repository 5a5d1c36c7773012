/** No cycle of value imports; a cycle that only types close stays inside one folder. */
import { type Cycle, cyclesOf, type Finding, folderOf, type Graph } from './module_graph'

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
