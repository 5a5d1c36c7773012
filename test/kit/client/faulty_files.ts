/** Makes the file system fail, and a process end, at any call with which a client saves its wallet. */
import { mock } from 'bun:test'
import * as files from 'node:fs'

/** What a call meets: `half` writes a part and then fails; `ends` kills the process before, within or after the call. */
export type FileTrouble = 'ENOSPC' | 'half' | 'EIO' | 'ends before' | 'ends half' | 'ends after'
export type FileCall = 'open' | 'write' | 'sync' | 'rename' | 'remove'

/** The process ended at this call. */
export class Ended extends Error {}

/** @param meets asked at each call of the code under test; undefined for code that meets nothing @returns what ends it */
export function faultyFiles(meets: (call: FileCall) => FileTrouble | undefined): () => void {
  const real = { ...files }
  const through = <T>(call: FileCall, run: () => T, half: () => void = () => undefined): T => {
    const trouble = meets(call)
    if (trouble === 'half' || trouble === 'ends half') half()
    if (trouble?.startsWith('ends') && trouble !== 'ends after') throw new Ended(`ended at ${call}`)
    if (trouble === 'EIO') throw failure('EIO')
    if (trouble === 'ENOSPC' || trouble === 'half') throw failure('ENOSPC')
    const value = run()
    if (trouble === 'ends after') throw new Ended(`ended after ${call}`)
    return value
  }
  const replaced = {
    ...real,
    openSync: (path: string, ...rest: [string, number?]) =>
      through('open', () => real.openSync(path, ...rest)),
    writeFileSync: (to: files.PathOrFileDescriptor, content: string, ...rest: []) =>
      through(
        'write',
        () => real.writeFileSync(to, content, ...rest),
        () => real.writeFileSync(to, content.slice(0, content.length / 2)),
      ),
    fsyncSync: (file: number) => through('sync', () => real.fsyncSync(file)),
    renameSync: (from: string, to: string) => through('rename', () => real.renameSync(from, to)),
    rmSync: (path: string, options: files.RmOptions) => through('remove', () => real.rmSync(path, options)),
  }
  mock.module('node:fs', () => ({ ...replaced, default: replaced }))
  return () => void mock.module('node:fs', () => ({ ...real, default: real }))
}

const failure = (code: string): Error => Object.assign(new Error(`${code}: the disk failed`), { code })
