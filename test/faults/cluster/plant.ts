/** Runs the campaign in a copy of the tree with a bug that it must find. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { TreeCopy } from '../../mutate/copy_tree'

const ROOT = join(import.meta.dir, '../../..')
const LOG = 'engine/cluster/replicated_log.ts'

/** What stands in the file, and what replaces it. */
type Plant = { file: string; text: string; replacement: string }

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
  },
  'acknowledged-before-quorum': {
    file: LOG,
    text: '      const result = await this.decided(mine, then, this.lookups())\n      if (!result.succeeded) checkLanded(decodeFound(result), term, last ? to : undefined)',
    replacement: '      void this.decided(mine, then, this.lookups())',
  },
  'stale-front-answers': {
    file: 'engine/methods/front.ts',
    text: `    if (right === undefined || clock.monotonicMs() >= right.until_ms) return undefined
    const is_led = right.epoch === rights.at(-1)!.epoch && right.epoch === replica.epoch()
    return is_led && replica.isAt(right) ? right : undefined`,
    replacement: '    return rights.at(-1)',
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
  },
}

/** @returns the exit code of the campaign */
export async function runPlanted(name: string, args: readonly string[]): Promise<number> {
  const { file, text, replacement } = PLANTS[name]!
  const copy = new TreeCopy(ROOT)
  try {
    const path = join(copy.root, file)
    const source = readFileSync(path, 'utf8')
    if (source.split(text).length !== 2) throw new Error(`${file} has no place for ${name}`)
    writeFileSync(
      path,
      source.replace(text, () => replacement),
    )
    const main = join(copy.root, 'test/faults/main.ts')
    const child = Bun.spawn([process.execPath, main, 'cluster', ...args], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    return await child.exited
  } finally {
    copy.remove()
  }
}
