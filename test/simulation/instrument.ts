/**
 * Preloaded by a simulation: each `await` of the product reports (`awaits.ts`), threads become functions that run in this one
 * (`threads.ts`), a client saves its wallet through `faulty_files.ts`, and the kit's `expect` is `expect.ts`.
 */
import { plugin } from 'bun'
import { readFileSync } from 'node:fs'
import { instrument } from './awaits'

const ROOT = new URL('../..', import.meta.url).pathname
const PRODUCT = /^(engine|server|routes|enclave|client\/(session|wallet|api))\/|^client\/[^/]+\.ts$/
const TEST_KIT = /^test\/(kit|client)\//

/** A thread's file as a function of its `self`. */
function asFunction(text: string): string {
  const imports = [...text.matchAll(/^import [\s\S]*?from '[^']+'$/gm)]
  const last = imports.at(-1)!
  const cut = last.index + last[0].length
  const body = text.slice(cut).replaceAll(/^export type/gm, 'type').replace(/^declare const self.*$/m, '')
  return `${text.slice(0, cut)}\nexport default (self: any) => {${body}}\n`
}

plugin({
  name: 'simulation',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const name = path.startsWith(ROOT) ? path.slice(ROOT.length) : ''
      let contents = readFileSync(path, 'utf8')
      if (PRODUCT.test(name)) {
        contents = instrument(path, contents)
        contents = contents.replaceAll(/\bBun\.(sleep|sleepSync|gc)\b/g, '$$Bun.$1')
        if (name.startsWith('engine/')) contents = contents.replace("from 'node:fs'", `from '${ROOT}test/simulation/changes'`)
        contents = contents.replace("from 'bun:sqlite'", `from '${ROOT}test/simulation/databases'`)
        if (name.endsWith('_worker.ts')) contents = asFunction(contents)
        if (name === 'client/whole_file.ts')
          contents = contents.replaceAll("from 'node:fs'", `from '${ROOT}test/simulation/faulty_files'`)
      } else if (TEST_KIT.test(name))
        contents = contents.replaceAll("from 'bun:test'", `from '${ROOT}test/simulation/expect'`)
      return { contents, loader: 'ts' }
    })
  },
})
