/** Runs parts of a bench as child processes and queries them by name, one question at a time. */

import { cpus } from 'node:os'
import { resolve } from 'node:path'
import { type Figure, inFolder, report } from './figures'

type Question = { name: string; argument: unknown }
type Reply = { value: unknown } | { error: string }

export type Child = {
  readonly pid: number
  /** @throws Error when the child does, or ends. */
  ask<T>(name: string, argument?: unknown): Promise<T>
  end(): Promise<void>
}

/** The image's settings of the runtime's allocator (Dockerfile). */
export const IMAGE = { MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000' }

/** Whether a child can be held to a core, and two children to different ones. */
export const cores_apart = cpus().length > 1 && Bun.which('taskset') !== null

/**
 * Starts `file` (relative to `bench/`) as a Bun process that answers with `answerQuestions`. All its threads stay on `core`, if
 * one is given.
 */
export function startChild(file: string, core?: number): Child {
  let waiting: PromiseWithResolvers<unknown> | undefined
  const held = core === undefined ? [] : ['taskset', '--cpu-list', String(core)]
  const child = Bun.spawn([...held, process.execPath, resolve(import.meta.dir, '..', file)], {
    env: { ...process.env, ...IMAGE },
    stdio: ['ignore', 'inherit', 'inherit'],
    serialization: 'advanced',
    ipc(message: Reply) {
      const settled = waiting
      waiting = undefined
      if ('error' in message) settled?.reject(new Error(message.error))
      else settled?.resolve(message.value)
    },
    onExit: (_, code) => waiting?.reject(new Error(`${file} ended with ${code}`)),
  })
  return {
    pid: child.pid,
    async ask<T>(name: string, argument?: unknown) {
      waiting = Promise.withResolvers()
      child.send({ name, argument })
      return (await waiting.promise) as T
    },
    async end() {
      child.kill('SIGTERM')
      await child.exited
    },
  }
}

/** Measures in a temporary folder, ends the child processes, and reports the figures. */
export async function runBench(
  name: string,
  children: readonly Child[],
  measure: (dir: string) => Promise<Figure[]>,
): Promise<void> {
  const ended = () => Promise.all(children.map((child) => child.end()))
  report(name, await inFolder(name, (dir) => measure(dir).finally(ended)))
}

/** The child's side, once in a process. */
export function answerQuestions(answers: Record<string, (argument: never) => unknown>): void {
  if (process.listenerCount('message') > 0)
    throw new Error('another file answers the questions of this process')
  // A regular exit, so that a profile of the child is written.
  process.on('SIGTERM', () => process.exit(0))
  // A bench that fails leaves no process behind.
  process.on('disconnect', () => process.exit(0))
  process.on('message', async ({ name, argument }: Question) => {
    try {
      const answer = answers[name] as ((argument: unknown) => unknown) | undefined
      if (answer === undefined) throw new Error(`no answer to ${name}`)
      process.send!({ value: await answer(argument) })
    } catch (error) {
      process.send!({ error: (error as Error).stack ?? String(error) })
    }
  })
}
