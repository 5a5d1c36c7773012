/** `node:fs` of the venue, which counts the calls that change a file: between two equal counts a folder's bytes are equal. */
import * as files from 'node:fs'
import { type Life, ownLife } from './awaits'

export * from 'node:fs'
/** Changes of the venue's folder and of the clients' wallets. */
export const changes = { venue: 0, client: 0 }

/** Of the venue's disk. `fills`: to be called as a snapshot begins. */
export const space = { isFull: false, fills: undefined as (() => void) | undefined }
export const failure = (code: string): Error => Object.assign(new Error(`${code}: the disk failed`), { code })

const counted =
  <A extends unknown[], R>(call: (...args: A) => R) =>
  (...args: A): R => {
    changes.venue++
    return call(...args)
  }
export const writeSync = counted(files.writeSync as never) as typeof files.writeSync
export const writeFileSync = counted(files.writeFileSync)
export const truncateSync = counted(files.truncateSync)
export const renameSync = counted(files.renameSync)
export const rmSync = counted(files.rmSync)
export const mkdirSync = counted(files.mkdirSync as never) as typeof files.mkdirSync
const open = new Map<number, Life | undefined>()
export const openSync = (path: string, flags: files.OpenMode = 'r', mode?: files.Mode): number => {
  if (flags !== 'r' && flags !== 'r+') changes.venue++
  const file = files.openSync(path, flags, mode)
  open.set(file, ownLife())
  return file
}
export const closeSync = (file: number): void => {
  open.delete(file)
  files.closeSync(file)
}

/** Those of a process that ended. */
export function takeFiles(life: Life): number[] {
  const own = [...open].filter(([, of]) => of?.isOf(life)).map(([file]) => file)
  for (const file of own) open.delete(file)
  return own
}
