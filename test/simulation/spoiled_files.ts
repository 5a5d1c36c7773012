/**
 * The host changes the folder of a venue that is down, and its next start mends that by itself: read models are lost, or are
 * those of another disk, or the newest snapshot is damaged. The journal reaches back to its first record here.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Random } from '../kit/random'
import { copyFolder } from './image'

/** Of the starts one in so many finds other files than the process before left. */
const SPOILED = 10
const MODELS = ['history', 'facts']

/** Seldom. @param others folder of another run of this venue @returns what happened */
export function spoil(dir: string, random: Random, others: string | undefined): string | undefined {
  if (random.below(SPOILED) > 0) return undefined
  const models = random.pick([MODELS, ...MODELS.map((one) => [one])])
  const acts = [
    () => lose(dir, models),
    () => damage(dir, random),
    ...(others === undefined ? [] : [() => replace(dir, models, others)]),
  ]
  return random.pick(acts)()
}

function lose(dir: string, models: readonly string[]): string {
  for (const one of models) rmSync(join(dir, one), { recursive: true, force: true })
  return `lost ${models.join(' and ')}`
}
function replace(dir: string, models: readonly string[], others: string): string {
  for (const one of models) {
    const [own, other] = [join(dir, one), join(others, one)]
    if (!existsSync(other)) continue
    rmSync(own, { recursive: true, force: true })
    copyFolder(other, own)
  }
  return `${models.join(' and ')} of another disk`
}
function damage(dir: string, random: Random): string {
  const folder = join(dir, 'snapshots')
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.snapshot')) : []
  const newest = names.toSorted().at(-1)
  if (newest === undefined) return 'no snapshot to damage'
  const path = join(folder, newest)
  const bytes = readFileSync(path)
  if (random.below(2) === 0) writeFileSync(path, bytes.subarray(0, random.below(bytes.length)))
  else {
    bytes[random.below(bytes.length)]! ^= 1 << random.below(8)
    writeFileSync(path, bytes)
  }
  return 'damaged the newest snapshot'
}
