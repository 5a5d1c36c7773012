/** Mounts a small volume in memory, which a test can fill; only root may. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const made = () => mkdtempSync(join(tmpdir(), 'tacit-volume-'))
const mount = (size: string, dir: string) =>
  spawnSync('/bin/mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', dir]).status === 0

export function isMountable(): boolean {
  const dir = made()
  const mounted = mount('64k', dir)
  if (mounted) spawnSync('/bin/umount', [dir])
  rmSync(dir, { recursive: true })
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
