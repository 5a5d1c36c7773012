/** Mounts a small volume in memory, which a test can fill; only root may. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs'
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

/** A separate file system mounted on an empty folder, which a test can fill or slow down. */
export class Disk {
  private constructor(private readonly dir: string) {}

  /** Undefined where none can be mounted. */
  static mount(dir: string, bytes: number): Disk | undefined {
    const image = `${dir}.img`
    writeFileSync(image, '')
    truncateSync(image, bytes)
    const run = (...command: string[]) => spawnSync(command[0]!, command.slice(1)).status === 0
    const made = run('mkfs.ext4', '-qFm0', image) && run('/bin/mount', '-o', 'loop', image, dir)
    return made ? new Disk(dir) : undefined
  }

  /** Holds up all writes for `hold_ms`, so many times. The child ends the hold, also when this process is gone. */
  async slow(hold_ms: number, times: number): Promise<void> {
    const script = 'for i in $(seq $3); do fsfreeze -f "$1"; sleep $2; fsfreeze -u "$1"; sleep 0.02; done'
    await Bun.spawn(['/bin/sh', '-c', script, 'sh', this.dir, `${hold_ms / 1_000}`, `${times}`]).exited
  }

  fill(): void {
    const { bavail, bsize } = statfsSync(this.dir)
    spawnSync('/usr/bin/fallocate', ['-l', `${bavail * bsize}`, join(this.dir, 'filler')])
  }
  free(): void {
    rmSync(join(this.dir, 'filler'), { force: true })
  }
  remove(): void {
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

/** Takes the rest of the volume; returns the function that frees it. */
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
