/** Runs the journal's thread on a disk that fails where the last argument says. */

import { existsSync } from 'node:fs'
import { replier, requestOf } from '../../../engine/journal/contract'
import { disk } from '../../../engine/journal/disk'
import { JournalServer } from '../../../engine/journal/journal_server'
import type { DiskFaults } from './failing_disk'

declare const self: Worker

const { write_fails_at, sync_fails_at, while: during } = JSON.parse(process.argv.at(-1)!) as DiskFaults
const { write, datasync } = disk
const isNow = (trouble: string) => during?.trouble === trouble && existsSync(during.exists)
let writes = 0
let syncs = 0

disk.write = (fd, bytes, from, length, at) => {
  // At 0 is the header of a segment.
  const fails = at !== 0 && (++writes === write_fails_at || isNow('write_fails'))
  if (!fails) return write(fd, bytes, from, length, at)
  write(fd, bytes, from, (length >> 1) & -512, at)
  throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
}
disk.datasync = (fd) => {
  while (isNow('sync_lasts')) Bun.sleepSync(5)
  if (++syncs === sync_fails_at || isNow('sync_fails'))
    throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
  datasync(fd)
}

const server = new JournalServer(replier((sent, moved) => self.postMessage(sent, moved)))
self.onmessage = ({ data }) => server.receive(requestOf(data))
