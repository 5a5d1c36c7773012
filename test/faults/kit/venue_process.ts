/** Starts, kills and stops the real venue process on a temporary folder, keeps its output, and reaches it wherever it listens. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Transport } from '../../../client/api/venue_client'
import { fromHex } from '../../../protocol/bytes'
import type { Info } from '../../../protocol/wire/trading'
import type { SandboxFacts } from '../../../sandbox/open_sandbox'
import { callOperator, type OperatorTarget } from '../../../tools/account/call_operator'

const MAIN = new URL('../../../server/main.ts', import.meta.url).pathname
const SERVES = 'Tacit serves at'
const SETTINGS: Record<string, string> = {
  TACIT_LISTEN: '127.0.0.1:0',
  TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
  TACIT_SLOT_MS: '50',
}

/** A test that ends early leaves no process and no folder behind. */
const made = new Set<VenueProcess>()
process.on('exit', () => {
  for (const venue of made) venue.leave()
})

export class VenueProcess {
  readonly data_dir = mkdtempSync(join(tmpdir(), 'tacit-faults-'))
  /** Standard output and standard error of every start so far. */
  output = ''
  private readonly readers = new Set<() => void>()
  private child: Bun.Subprocess<'ignore', 'pipe', 'pipe'> | undefined
  private serving: PromiseWithResolvers<boolean> = Promise.withResolvers()
  /** Both streams read to their end. */
  private streams: Promise<unknown> = Promise.resolve()
  facts!: SandboxFacts

  constructor(
    private readonly settings: Record<string, string> = {},
    /** Modules that run in the process before the venue does. */
    private readonly preloaded: readonly string[] = [],
    private readonly args: readonly string[] = [],
  ) {
    made.add(this)
  }

  get pid(): number {
    return this.child!.pid
  }
  get runs(): boolean {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null
  }

  get ended_by(): Bun.Subprocess['signalCode'] {
    return this.child?.signalCode ?? null
  }

  /** Starts it and resolves with true once it serves, or with false once it ended without serving. */
  async launch(more: Record<string, string> = {}): Promise<boolean> {
    if (this.runs) throw new Error('it runs already')
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('TACIT_'))
    const env = { ...Object.fromEntries(own), ...SETTINGS, ...this.settings, ...more }
    const preloads = this.preloaded.flatMap((path) => ['--preload', path])
    this.serving = Promise.withResolvers()
    const child = Bun.spawn([process.execPath, ...preloads, MAIN, ...this.args], {
      env: { TACIT_DATA_DIR: this.data_dir, ...env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    this.child = child
    this.streams = Promise.all([this.keep(child.stdout), this.keep(child.stderr)])
    void child.exited.then(() => this.serving.resolve(false))
    const serves = await this.serving.promise
    if (serves)
      this.facts = JSON.parse(readFileSync(join(this.data_dir, 'laptop.json'), 'utf8')) as SandboxFacts
    return serves
  }

  /** @throws Error with the output of a process that does not serve. */
  async start(): Promise<SandboxFacts> {
    if (await this.launch()) return this.facts
    await this.streams
    throw new Error(`the venue did not start:\n${this.output.slice(-4_000)}`)
  }

  private async keep(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    // Only the output of this start says whether this start serves.
    let printed = ''
    for await (const bytes of stream) {
      const text = decoder.decode(bytes, { stream: true })
      this.output += text
      printed += text
      if (printed.includes(SERVES)) this.serving.resolve(true)
      for (const look of this.readers) look()
    }
  }

  /** Resolves once its output has `text` behind position `from`. */
  printed(text: string, from: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = (): void => {
      if (this.output.includes(text, from)) resolve()
    }
    this.readers.add(look)
    look()
    return promise.finally(() => this.readers.delete(look))
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name)
  }
  /** kill -9: no drain, no flush, no goodbye. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended()
  }
  /** SIGTERM. @returns the exit code. */
  async stop(): Promise<number> {
    this.signal('SIGTERM')
    return this.ended()
  }
  /** The exit code, once the process is gone and everything it printed is kept. */
  async ended(): Promise<number> {
    const code = (await this.child?.exited) ?? 0
    await this.streams
    return code
  }

  /** Ends it if it runs, and removes its folder. */
  async remove(): Promise<void> {
    if (this.child !== undefined) await this.kill()
    this.leave()
  }
  /** The same without waiting for anything. */
  leave(): void {
    this.signal('SIGKILL')
    rmSync(this.data_dir, { recursive: true, force: true })
    made.delete(this)
  }
}

export function venueTransport(venue: Pick<VenueProcess, 'facts'>): Transport {
  const ca = () => readFileSync(venue.facts.certificate, 'utf8')
  return {
    get base_url() {
      return venue.facts.url
    },
    fetch(path, init) {
      return fetch(venue.facts.url + path, { ...init, tls: { ca: ca() } } as RequestInit)
    },
    webSocket(path) {
      const url = venue.facts.url.replace(/^http/, 'ws') + path
      return new WebSocket(url, { tls: { ca: ca() } } as never)
    },
  }
}

export async function operatorTarget(venue: VenueProcess): Promise<OperatorTarget> {
  const answer = await venueTransport(venue).fetch('/info')
  const info = (await answer.json()) as Info
  const { facts } = venue
  return {
    url: facts.operator_url,
    venue: fromHex(info.venue, 32)!,
    operator_seed: fromHex(readFileSync(facts.operator_key, 'utf8').trim(), 32)!,
    ca: readFileSync(facts.certificate, 'utf8'),
  }
}

let last_call_ms = 0
/** Milliseconds that rise from call to call, as the operator's nonces must. */
export function operatorNow(): number {
  last_call_ms = Math.max(Date.now(), last_call_ms + 1)
  return last_call_ms
}

export async function readMetrics(venue: VenueProcess): Promise<string> {
  const call = { method: 'GET', path: '/metrics', body: undefined } as const
  return callOperator(await operatorTarget(venue), call, operatorNow())
}

export async function residentBytes(venue: VenueProcess): Promise<number> {
  const line = /^process_resident_memory_bytes ([0-9.e+]+)$/m.exec(await readMetrics(venue))
  if (line === null) throw new Error('the metrics do not tell the resident memory')
  return Number(line[1])
}
