/** Packages: each import names a declared one, the product needs no development package, and no name has a second meaning. */
import type { Finding } from './finding'
import { type Graph, topOf } from './module_graph'
import type { Tree } from './read_tree'
import { ALIAS_FIELDS, ALIAS_OPTIONS, DEVELOPMENT_FOLDERS } from './rules'

type Fields = Readonly<Record<string, unknown>>
export type Packages = { readonly product: ReadonlySet<string>; readonly development: ReadonlySet<string> }
type Fault = Pick<Finding, 'rule' | 'fault' | 'fix'>

export function packagesOf(tree: Tree): Packages {
  const fields = fieldsOf(tree, 'package.json') ?? {}
  const names = (field: string) => new Set(Object.keys((fields[field] as Fields | undefined) ?? {}))
  return { product: names('dependencies'), development: names('devDependencies') }
}

export function packageFault(packages: Packages, file: string, specifier: string): Fault | undefined {
  if (/^(node:|bun:|bun$)/.test(specifier)) return undefined
  const name = /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier
  if (packages.product.has(name)) return undefined
  if (!packages.development.has(name))
    return {
      rule: 'undeclared-package',
      fault: `${specifier} is neither a module of the platform nor a package that package.json declares, so another machine loads another file`,
      fix: 'write `node:` before a module of the platform, a relative path for a file of this tree, or declare the package',
    }
  if (DEVELOPMENT_FOLDERS.includes(topOf(file))) return undefined
  return {
    rule: 'undeclared-package',
    fault: `${name} is a development dependency, which a user of ${topOf(file)}/ does not install`,
    fix: `move it to \`dependencies\` in package.json, or this code to ${DEVELOPMENT_FOLDERS.join(', ')}`,
  }
}

/** Files that change the meaning of specifiers, wherever they are. */
const CONFIGURATIONS = /(^|\/)(package|[jt]sconfig[^/]*)\.json$|(^|\/)bunfig\.toml$|(^|\/)node_modules\//i
/** The same at the root, each read below. */
const READ = ['package.json', 'tsconfig.json', 'bunfig.toml']

export function checkPackages({ tree }: Graph): Finding[] {
  const found: Finding[] = []
  const add = (file: string, fault: string, fix: string) =>
    found.push({ file, line: 1, rule: 'alias', fault, fix })
  for (const file of tree.keys()) {
    if (CONFIGURATIONS.test(file) && !READ.includes(file))
      add(
        file,
        'it gives imports below it another meaning than the rules see',
        `delete it; ${READ[0]} is at the root`,
      )
  }
  for (const field of aliasFields(tree))
    add(field.file, `\`${field.name}\` gives a module a second name, so imports show another one`, field.fix)
  return found
}

function aliasFields(tree: Tree): { file: string; name: string; fix: string }[] {
  const pack = fieldsOf(tree, 'package.json') ?? {}
  const config = fieldsOf(tree, 'tsconfig.json') ?? {}
  const options = (config['compilerOptions'] as Fields | undefined) ?? {}
  const bun = fieldsOf(tree, 'bunfig.toml') ?? {}
  const path = 'delete it, and import files by relative paths'
  const versions = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap(
    (field) => Object.entries((pack[field] as Fields | undefined) ?? {}),
  )
  return [
    ...ALIAS_FIELDS.filter((name) => name in pack).map((name) => ({ file: 'package.json', name, fix: path })),
    ...versions
      .filter(([, version]) => !/^\d+\.\d+\.\d+[\w.+-]*$/.test(String(version)))
      .map(([name]) => ({ file: 'package.json', name, fix: 'name the exact version of the registry' })),
    ...ALIAS_OPTIONS.filter((name) => name in options || name in config).map((name) => ({
      file: 'tsconfig.json',
      name,
      fix: path,
    })),
    ...['preload', 'define', 'loader', 'plugins']
      .filter((name) => name in bun)
      .map((name) => ({ file: 'bunfig.toml', name, fix: 'delete it; `[test]` may load files of test/' })),
  ]
}

function fieldsOf(tree: Tree, file: string): Fields | undefined {
  const text = tree.get(file)
  if (text === undefined) return undefined
  return (file.endsWith('.toml') ? Bun.TOML.parse(text) : Bun.JSONC.parse(text)) as Fields
}
