/** Mounts a small volume in memory, which a test can fill; only root may. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const made = () => mkdtempSync(join(tmpdir(), 'tacit-volume-'))
const mount = (size: string, dir: string) =>
  spawnSync('/bin/mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', dir]).status === 0
const isRemounted = (option: string, dir: string) =>
  spawnSync('/bin/mount', ['-o', `remount,${option}`, dir]).status === 0
function remount(option: string, dir: string): void {
  if (!isRemounted(option, dir)) throw new Error('the volume was not remounted')
}

/** A volume in place of the empty folder, which takes no more than it has while it is full. */
export class Volume {
  constructor(
    private readonly dir: string,
    private readonly size: string,
  ) {
    if (!mount(size, dir)) throw new Error('no volume was mounted')
  }

  fill(): void {
    for (let tries = 0; tries < 100; tries++) {
      const { blocks, bfree, bsize } = statfsSync(this.dir)
      // It fails where a write came between the two.
      if (isRemounted(`size=${(blocks - bfree) * bsize}`, this.dir)) return
    }
    throw new Error('the volume was not filled')
  }
  free(): void {
    remount(`size=${this.size}`, this.dir)
  }
  remove(): void {
    // Lazy: a process that was killed may still hold files of it.
    spawnSync('/bin/umount', ['-l', this.dir])
  }
}

/** Prints the reason why tests are skipped where none can be mounted. */
export function isMountable(): boolean {
  const dir = made()
  const mounted = mount('64k', dir)
  if (mounted) spawnSync('/bin/umount', [dir])
  rmSync(dir, { recursive: true })
  if (!mounted) console.log('skipped: this user may not mount a small volume')
  return mounted
}

export async function withSmallVolume(size: string, body: (dir: string) => Promise<void>): Promise<void> {
  const dir = made()
  if (!mount(size, dir)) throw new Error('no volume was mounted')
  try {
    await body(dir)
  } finally {
    // Lazy: the thread of the test may hold files of it still.
    spawnSync('/bin/umount', ['-l', dir])
    rmSync(dir, { recursive: true, force: true })
  }
}

/** From now on the volume takes no writes, or takes them again. */
export function setReadOnly(dir: string, read_only: boolean): void {
  remount(read_only ? 'ro' : 'rw', dir)
}

/** Takes the rest of the volume; returns what gives it back. */
export function fillUp(dir: string): () => void {
  const fillers: string[] = []
  for (const bytes of [2 ** 16, 2 ** 12]) {
    for (let full = false; !full; ) {
      const path = join(dir, `filler.${fillers.length}`)
      fillers.push(path)
      try {
        writeFileSync(path, new Uint8Array(bytes))
      } catch {
        full = true
      }
    }
  }
  return () => {
    for (const path of fillers) rmSync(path, { force: true })
  }
}
