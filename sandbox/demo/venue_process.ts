/** Runs the venue as a separate process: started like an operator does, killed like a power cut does. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { DEMO_START_MAX_MS, DEMO_START_POLL_MS } from '../../client/limits'
import type { SandboxFacts } from '../open_sandbox'
import { DemoFailed } from './report'

const MAIN = new URL('../../server/main.ts', import.meta.url).pathname

export class VenueProcess {
  private child: Subprocess | undefined
  constructor(
    private readonly data_dir: string,
    private readonly env: Record<string, string>,
  ) {}

  /** Starts the venue and waits until it serves; by then its vault is open. */
  async start(wait_ms = DEMO_START_MAX_MS): Promise<SandboxFacts> {
    const facts_path = join(this.data_dir, 'laptop.json')
    rmSync(facts_path, { force: true })
    const env = { ...process.env, ...this.env, TACIT_DATA_DIR: this.data_dir }
    const log = Bun.file(join(this.data_dir, 'venue.log'))
    this.child = Bun.spawn([process.execPath, MAIN], { env, stdout: log, stderr: log, stdin: 'ignore' })
    const deadline = performance.now() + wait_ms
    while (!existsSync(facts_path)) {
      if (this.child.exitCode !== null) throw new DemoFailed(`the venue ended at start; see ${log.name}`)
      if (performance.now() > deadline) throw new DemoFailed(`the venue did not start; see ${log.name}`)
      await Bun.sleep(DEMO_START_POLL_MS)
    }
    return JSON.parse(readFileSync(facts_path, 'utf8')) as SandboxFacts
  }

  /** kill -9: no drain, no flush, no goodbye. */
  async kill(): Promise<void> {
    this.child?.kill('SIGKILL')
    await this.child?.exited
  }

  /** SIGTERM: drain, anchor, snapshot, exit. @returns the exit code. */
  async stop(): Promise<number> {
    this.child?.kill('SIGTERM')
    return (await this.child?.exited) ?? 0
  }
}
