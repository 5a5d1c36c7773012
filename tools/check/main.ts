#!/usr/bin/env bun
/** Applies every rule of the house (`tools/check/rules.ts`) to the tree. Exit 1 on a violation. */
import { parseArgs } from 'node:util'
import { checkCitations, checkFiles } from './check_files'
import { checkImports, checkPackages } from './check_imports'
import { checkPurity, checkSyntax } from './check_purity'
import {
  byPlace,
  checkCycles,
  type Finding,
  findingText,
  type Graph,
  openGraph,
  readTree,
  type Tree,
} from './module_graph'

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

const USAGE = `bun tools/check/main.ts [--root FOLDER] [--skip RULE[,RULE...]]
  --root    the checkout to check; default: this one
  --skip    leave out rules by name`

if (import.meta.main) {
  const { values: options } = parseArgs({
    options: {
      root: { type: 'string', default: new URL('../..', import.meta.url).pathname },
      skip: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  })
  if (options.help) {
    console.log(USAGE)
  } else {
    const tree = readTree(options.root)
    const skipped = options.skip.split(',')
    const findings = checkTree(tree).filter(({ rule }) => !skipped.includes(rule))
    for (const finding of findings) console.error(findingText(finding))
    console.error(
      findings.length === 0
        ? `Checked ${tree.size} files: the boundaries hold.`
        : `${findings.length} violation${findings.length === 1 ? '' : 's'}. The rules are data in tools/check/rules.ts.`,
    )
    process.exitCode = findings.length === 0 ? 0 : 1
  }
}
