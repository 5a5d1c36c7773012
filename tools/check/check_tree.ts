/** Every rule, applied to a tree. */
import { checkCitations } from './check_citations'
import { checkFiles } from './check_files'
import { checkImports, checkPackages } from './check_imports'
import { checkPurity } from './check_purity'
import { checkSyntax } from './check_syntax'
import { byPlace, checkCycles, type Finding, type Graph, openGraph, type Tree } from './module_graph'

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
