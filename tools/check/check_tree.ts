/** Every rule, applied to a tree. */
import { checkCitations } from './check_citations'
import { checkCycles } from './check_cycles'
import { checkFiles } from './check_files'
import { checkImports } from './check_imports'
import { checkPackages } from './check_packages'
import { checkPurity } from './check_purity'
import { checkSyntax } from './check_syntax'
import { byPlace, type Finding } from './finding'
import { type Graph, openGraph } from './module_graph'
import type { Tree } from './read_tree'

const CHECKS: readonly ((graph: Graph) => Finding[])[] = [
  checkImports,
  checkPackages,
  checkSyntax,
  checkPurity,
  checkCycles,
  checkFiles,
  checkCitations,
]

/** Findings in the order of files and lines. */
export function checkTree(tree: Tree): Finding[] {
  const graph = openGraph(tree)
  return CHECKS.flatMap((check) => check(graph)).sort(byPlace)
}
