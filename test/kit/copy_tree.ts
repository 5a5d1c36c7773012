/** Copies the tree into a temporary folder, as it is or as a build that carries the next version of rules and formats. */

import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FIRST_VERSION } from '../../engine/machine/state/state'

/** Folders at the top that no test reads, or that are linked. */
export const APART = new Set(['.git', 'node_modules', 'dist', 'data'])

/** A copy of the tree. Its tests keep their temporary folders next to it, so that killed ones leave nothing. */
export class TreeCopy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'copy-'))
  readonly root = join(this.#folder, 'tree')
  readonly temporary = join(this.#folder, 't')

  constructor(readonly of: string) {
    for (const name of readdirSync(of))
      if (!APART.has(name)) cpSync(join(of, name), join(this.root, name), { recursive: true })
    symlinkSync(join(of, 'node_modules'), join(this.root, 'node_modules'))
    // Tests that find no recorded quotes next to the tree skip themselves, and would notice nothing.
    const beside = join(of, '../shared')
    if (existsSync(beside)) symlinkSync(beside, join(this.#folder, 'shared'))
    this.emptyTemporary()
  }

  emptyTemporary(): void {
    rmSync(this.temporary, { recursive: true, force: true, maxRetries: 3 })
    mkdirSync(this.temporary)
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

export const NEXT_VERSION = FIRST_VERSION + 1
/** From the next version on a dead-man timer ends at a multiple of this many slots. */
export const NEXT_TIMER_SLOTS = 100

const MACHINE = 'engine/machine'
/** By file: a text that occurs once, and its replacement. */
const CHANGES: readonly (readonly [file: string, text: string, replacement: string])[] = [
  [`${MACHINE}/state/state.ts`, '[FIRST_VERSION]', '[FIRST_VERSION, FIRST_VERSION + 1]'],
  [`${MACHINE}/state/state.ts`, '  version: number\n', '  version: number\n  timers_armed: number\n'],
  [
    `${MACHINE}/state/state.ts`,
    '    version: FIRST_VERSION,',
    '    version: FIRST_VERSION,\n    timers_armed: 0,',
  ],
  [
    `${MACHINE}/rules/cancel.ts`,
    '  key.dead_man_slot = armed ? state.slot + command.timeout_slots : 0\n',
    `  key.dead_man_slot = armed ? state.slot + command.timeout_slots : 0
  if (armed && state.version > ${FIRST_VERSION}) {
    key.dead_man_slot = Math.ceil(key.dead_man_slot / ${NEXT_TIMER_SLOTS}) * ${NEXT_TIMER_SLOTS}
    state.timers_armed += 1
  }
`,
  ],
  [
    `${MACHINE}/codec/state_codec.ts`,
    '  heading.write(to, state)\n',
    `  heading.write(to, state)\n  if (state.version > ${FIRST_VERSION}) to.uint(state.timers_armed)\n`,
  ],
  [
    `${MACHINE}/codec/state_codec.ts`,
    '  readHeading(state, from)\n',
    `  readHeading(state, from)\n  if (state.version > ${FIRST_VERSION}) state.timers_armed = from.uint()\n`,
  ],
]

/** The copy is removed by its `remove`. */
export function nextBuild(): TreeCopy {
  const copy = new TreeCopy(join(import.meta.dir, '../..'))
  for (const [file, text, replacement] of CHANGES) {
    const path = join(copy.root, file)
    const source = readFileSync(path, 'utf8')
    if (source.split(text).length !== 2) throw new Error(`${file} has no place for the next version`)
    writeFileSync(
      path,
      source.replace(text, () => replacement),
    )
  }
  return copy
}
