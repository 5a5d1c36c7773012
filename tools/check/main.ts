#!/usr/bin/env bun
/** Checks the boundaries of the house (`tools/check/rules.ts`). Exit 1 on a violation. */
import { parseArgs } from 'node:util'
import { checkTree } from './check_tree'
import { findingText, readTree } from './module_graph'

const USAGE = `bun tools/check/main.ts [--root FOLDER] [--skip RULE[,RULE...]]
  --root    the checkout to check; default: this one
  --skip    leave out rules by name`

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
      : `${findings.length} violations. The rules are data in tools/check/rules.ts.`,
  )
  process.exitCode = findings.length === 0 ? 0 : 1
}
