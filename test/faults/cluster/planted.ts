/** Bugs that the campaign must find, each planted in a copy of this tree. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TreeCopy } from '../../kit/copy_tree'

const ROOT = join(import.meta.dir, '../../..')
/** A rule that does not hold after a round. */
const ROUND = /round \d+ of seed \d+: /
const LOG = 'engine/cluster/replicated_log.ts'

/** The text of the file, which is there once, its replacement, the fault
 * under which it shows, and the error that shows it. */
type Plant = { file: string; text: string; replacement: string; fault: string; broken: RegExp }

export const PLANTS: Readonly<Record<string, Plant>> = {
  'no-term-compare': {
    file: LOG,
    text: `      { key: this.head_key, value: from.seq === 0 ? undefined : POINT.encode(from) },
      { key: this.term_key, value: TERM.encode(term) },
    ]
    const parts`,
    replacement: `      { key: this.head_key, value: from.seq === 0 ? undefined : POINT.encode(from) },
    ]
    const parts`,
    fault: 'leading node paused',
    broken: ROUND,
  },
  'acknowledged-before-quorum': {
    file: LOG,
    text: '      const result = await this.decided(mine, then, this.lookups())\n      if (!result.succeeded) checkLanded(decodeFound(result), term, last ? to : undefined)',
    replacement: '      void this.decided(mine, then, this.lookups())',
    fault: 'appends delayed',
    broken: ROUND,
  },
  'stale-front-answers': {
    file: 'engine/methods/front.ts',
    text: `    if (right === undefined || clock.monotonicMs() >= right.until_ms) return undefined
    const is_led = right.epoch === rights.at(-1)!.epoch && right.epoch === replica.epoch()
    if (!is_led || !replica.isAt(right)) return undefined`,
    replacement: '    return rights.at(-1)',
    fault: 'following node cut off',
    broken: /a stale front answers/,
  },
  'head-read-after-lost-reply': {
    file: LOG,
    text: `        if (!(error instanceof NoReply)) throw error
        await Bun.sleep(LIMITS.log_retry_ms)`,
    replacement: `        if (!(error instanceof NoReply)) throw error
        await Bun.sleep(LIMITS.log_retry_ms)
        const [head] = compare
        const read = head && (await this.etcd.txn([], [{ get: head.key }]).catch(() => undefined))
        const found = read?.found[0]?.[0]?.value
        if (read && head.key === this.head_key && Bun.deepEquals(found, head.value))
          throw new Error('the append is not in the log')`,
    fault: 'appends delayed',
    broken: ROUND,
  },
}

/** @returns the file with the bug. @throws Error unless its text is there once */
export function withPlanted({ file, text, replacement }: Plant): string {
  const source = readFileSync(join(ROOT, file), 'utf8')
  if (source.split(text).length !== 2) throw new Error(`${file} has no place for this bug`)
  return source.replace(text, () => replacement)
}

/** @returns whether the campaign names the rule that the bug breaks */
export async function findsPlanted(name: string, args: readonly string[]): Promise<boolean> {
  const plant = PLANTS[name]!
  const source = withPlanted(plant)
  const copy = new TreeCopy(ROOT)
  try {
    writeFileSync(join(copy.root, plant.file), source)
    const main = join(copy.root, 'test/faults/main.ts')
    const child = Bun.spawn([process.execPath, main, 'cluster', ...args], {
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    const errors = await Bun.readableStreamToText(child.stderr)
    console.error(errors)
    return (await child.exited) === 1 && plant.broken.test(errors)
  } finally {
    copy.remove()
  }
}
