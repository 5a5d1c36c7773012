/**
 * Preloaded by a simulation: each `await` of the product reports (`awaits.ts`), threads become functions that run in this one
 * (`threads.ts`), a client saves its wallet through `faulty_files.ts`, and the kit's `expect` is `expect.ts`.
 */

import { readFileSync } from 'node:fs'
import { plugin } from 'bun'
import { instrument, PRODUCT } from './awaits'

const ROOT = new URL('../..', import.meta.url).pathname
const TEST_KIT = /^test\/(kit|client)\//

/** Bugs that a campaign must find: the file, the text, and its replacement. */
const PLANTED: Record<string, [file: string, text: string, by: string]> = {
  disk: [
    'engine/journal/commit_queue.ts',
    'durable(proofs, writer.writeFrame(groups, bytes, to))',
    'durable(proofs, 0)\n    await nextTurn()\n    writer.writeFrame(groups, bytes, to)',
  ],
  wallet: [
    'client/session/session.ts',
    '      this.store.save(this.wallet)\n      return value',
    '      return value',
  ],
  closed: ['engine/boot/start.ts', 'await sequencer.submit(decision)', 'void decision'],
}
const planted = PLANTED[process.env['TACIT_PLANTED'] ?? '']

const KEPT = `
const keys = new Map<string, Uint8Array>()
export function publicKeyOf(seed: Uint8Array): Uint8Array {
  const name = seed.toHex()
  const known = keys.get(name) ?? publicKeyOfSeed(seed)
  if (keys.size > 1_000) keys.clear()
  keys.set(name, known)
  return known.slice()
}`

const DIGESTS = `
const digests = new Map<string, Buffer>()
function digestOf(how: 'argon2id', of: Parameters<typeof argon2Sync>[1]): Buffer {
  const name = JSON.stringify([of.message, Buffer.from(of.nonce as Uint8Array).toString('hex')])
  const known = digests.get(name) ?? argon2Sync(how, of)
  digests.set(name, known)
  return known
}`

/** A thread's file as a function of its `self`. */
function asFunction(text: string): string {
  const imports = [...text.matchAll(/^import [\s\S]*?from '[^']+'$/gm)]
  const last = imports.at(-1)!
  const cut = last.index + last[0].length
  const body = text
    .slice(cut)
    .replaceAll(/^export type/gm, 'type')
    .replace(/^declare const self.*$/m, '')
  return `${text.slice(0, cut)}\nexport default (self: any) => {${body}}\n`
}

plugin({
  name: 'simulation',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const name = path.startsWith(ROOT) ? path.slice(ROOT.length) : ''
      let contents = readFileSync(path, 'utf8')
      if (planted?.[0] === name) {
        if (!contents.includes(planted[1])) throw new Error(`${name} has no place for the planted bug`)
        contents = contents.replace(planted[1], planted[2])
      }
      if (PRODUCT.test(name)) {
        contents = instrument(path, contents)
        contents = contents.replaceAll(/\bBun\.(sleep|sleepSync|gc|serve|listen)\b/g, '$$Bun.$1')
        if (/^(engine|enclave|server)\//.test(name))
          contents = contents.replace("from 'node:fs'", `from '${ROOT}test/simulation/changes'`)
        contents = contents.replace("from 'bun:sqlite'", `from '${ROOT}test/simulation/databases'`)
        // The priority of one thread would be that of all.
        if (name.endsWith('_worker.ts')) contents = asFunction(contents.replace(/^ *setPriority\(.*$/m, ''))
        if (name === 'server/tls/listen.ts')
          contents = contents.replace(
            "from './challenge_front'",
            `from '${ROOT}test/simulation/worlds/simulated_listen'`,
          )
        // The venue as the weather lets clients have it.
        if (name === 'server/join_process.ts')
          contents = contents.replace(
            'createApp({ venue, enclave',
            'createApp({ venue: $$edge(venue), enclave',
          )
        if (name === 'client/whole_file.ts')
          contents = contents.replaceAll("from 'node:fs'", `from '${ROOT}test/simulation/faulty_files'`)
      } else if (TEST_KIT.test(name))
        contents = contents.replaceAll("from 'bun:test'", `from '${ROOT}test/simulation/expect'`)
      if (name === 'sandbox/enclave/agent.ts') contents = contents.replaceAll('Bun.serve(', '$$Bun.serve(')
      // The parts of a moment of the chain.
      if (/^sandbox\/chain\/(bank|machine)\.ts$/.test(name))
        contents = contents.replaceAll(/#(?=[a-zA-Z])/g, '_')
      if (name === 'engine/index.ts')
        contents = contents.replace(/^ {2}.*start\(engine, first, restore\).*$/m, '  $$opened(engine)\n$&')
      if (name === 'engine/accounts/passphrase_worker.ts')
        contents = `${contents.replaceAll('argon2Sync(', 'digestOf(')}\n${DIGESTS}`
      // Pure functions of a seed, which client and kit ask again and again.
      if (name === 'protocol/sign.ts')
        contents = contents.replace('export function publicKeyOf(', `${KEPT}\nfunction publicKeyOfSeed(`)
      return { contents, loader: 'ts' }
    })
  },
})
