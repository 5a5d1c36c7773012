/** The calls with which a client saves its wallet: each can fail, and the process can end at it. Stands in for `node:fs`. */
import * as files from 'node:fs'
import { changes, failure } from './changes'

/** The fault of a call: `half` writes a part and then fails; `ends` kills the process before, within or after the call. */
export type FileTrouble = 'ENOSPC' | 'half' | 'EIO' | 'ends before' | 'ends half' | 'ends after'
export type FileCall = 'open' | 'write' | 'sync' | 'rename' | 'remove'

/** The process ended at this call. */
export class Ended extends Error {}

let meets: (call: FileCall) => FileTrouble | undefined = () => undefined
/** @param asked at each call; undefined for code that meets nothing */
export function faultyFiles(asked: typeof meets): void {
  meets = asked
}

function through<T>(call: FileCall, run: () => T, half: () => void = () => undefined): T {
  const trouble = meets(call)
  changes.client++
  if (trouble === 'half' || trouble === 'ends half') half()
  if (trouble?.startsWith('ends') && trouble !== 'ends after') throw new Ended(`ended at ${call}`)
  if (trouble === 'EIO') throw failure('EIO')
  if (trouble === 'ENOSPC' || trouble === 'half') throw failure('ENOSPC')
  const value = run()
  if (trouble === 'ends after') throw new Ended(`ended after ${call}`)
  return value
}

export const { closeSync, existsSync } = files
export const copyFileSync = (from: string, to: string) => {
  changes.client++
  files.copyFileSync(from, to)
}
export const linkSync = (from: string, to: string) => {
  changes.client++
  files.linkSync(from, to)
}
export const openSync = (path: string, flags: string, mode?: number) =>
  through('open', () => files.openSync(path, flags, mode))
export const writeFileSync = (to: number, content: string) =>
  through(
    'write',
    () => files.writeFileSync(to, content),
    () => files.writeFileSync(to, content.slice(0, content.length / 2)),
  )
export const fsyncSync = (file: number) => through('sync', () => files.fsyncSync(file))
export const renameSync = (from: string, to: string) => through('rename', () => files.renameSync(from, to))
export const rmSync = (path: string, options: files.RmOptions) =>
  through('remove', () => files.rmSync(path, options))
