/** Forms of the language that the other checks cannot read, and comments that switch checks off, are not used. */

import { generated } from './check_imports'
import type { Finding, Graph } from './module_graph'
import type { Source } from './parse_source'
import { isNode, type Node, nameOf, walk } from './syntax'

export function checkSyntax({ sources }: Graph): Finding[] {
  return [...sources.values()].flatMap((source) => [...hiddenForms(source), ...directives(source)])
}

function hiddenForms(source: Source): Finding[] {
  const found: Finding[] = []
  walk(source.program, undefined, (node) => {
    const form = formOf(node)
    if (form === undefined) return
    found.push({
      file: source.file,
      line: source.lineOf(node.start),
      rule: 'plain-syntax',
      fault: `${form.name} ${form.fault}`,
      fix: form.fix,
    })
  })
  return found
}

type Form = { name: string; fault: string; fix: string }

function formOf(node: Node): Form | undefined {
  switch (node.type) {
    case 'TSModuleDeclaration':
      return {
        name:
          isNode(node.id) && node.global !== true ? `The namespace ${nameOf(node.id)}` : '`declare global`',
        fault: 'holds declarations that belong to no file of their own',
        fix: 'write a file for them, and import what it exports',
      }
    case 'TSExportAssignment':
    case 'TSNamespaceExportDeclaration':
      return {
        name: '`export =`',
        fault: 'exports a value without a name, so no rule sees who uses it',
        fix: 'export declarations by name',
      }
    case 'TSImportEqualsDeclaration':
      return {
        name: '`import =`',
        fault: 'is a second form of import',
        fix: "write `import { name } from './file'`",
      }
    case 'ExportAllDeclaration':
      if (!isNode(node.exported)) return undefined
      return {
        name: '`export * as`',
        fault: 'passes a whole file on under one name, so no tool sees which members are used',
        fix: 'export the members that are used by name',
      }
    case 'ImportAttribute':
      return {
        name: `The attribute \`${nameOf(node.key)}\``,
        fault: 'changes how the file is read',
        fix: 'import a `.ts` or `.json` file, which needs none',
      }
    default:
      return undefined
  }
}

/** Comments that the tools obey, and their meaning. A suppression of one linter rule on one line stays possible. */
const DIRECTIVES: readonly (readonly [RegExp, string, string])[] = [
  [
    /^\/\s*<(reference|amd-)/,
    'imports a file unseen',
    'write `import type`; tsconfig.json names the libraries',
  ],
  [/^\s*@ts-/, 'hides every error of tsc, the next one too', 'correct the types'],
  [/^\s*biome-ignore(-all|-start|-end)/, 'switches a rule off for a part of the file', 'suppress one line'],
  [/^\s*biome-ignore\s+format/, 'lets a function be longer than its lines', 'format the file'],
]

function directives({ file, comments }: Source): Finding[] {
  if (generated(file)) return []
  return comments.flatMap(({ line, text }) => {
    const directive = DIRECTIVES.find(([form]) => form.test(text.replace(/^\*/, '')))
    if (directive === undefined) return []
    const written = text.trim().split('\n')[0]!.slice(0, 40)
    return { file, line, rule: 'suppression', fault: `"${written}" ${directive[1]}`, fix: directive[2] }
  })
}
