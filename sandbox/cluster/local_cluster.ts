/** Three members of etcd, three nodes and one chain on this machine, each node a process that can be killed and paused. */

import { cpSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { openEnclave } from '../../enclave/index'
import { KEY_PATHS } from '../../enclave/key_paths'
import { readDeployment } from '../../engine/chain/client/read_vault'
import { Etcd } from '../../engine/cluster/etcd'
import { ReplicatedLog } from '../../engine/cluster/replicated_log'
import { encodeBase58 } from '../../protocol/base58'
import { venueId } from '../../protocol/bodies/venue_id'
import { derOfPem } from '../../protocol/pem'
import { publicKeyOf } from '../../protocol/sign'
import { type HostedChain, hostEmbeddedChain } from '../chain/host_embedded_chain'
import { openStandInAgent } from '../enclave/open_stand_in'
import { announcedOf, appCompose, type SandboxFacts } from '../open_sandbox'
import { sandboxAuditor, sandboxSecrets } from '../secrets'
import { EtcdCluster, freeUrls } from './etcd_cluster'

export const NODES = [1, 2, 3] as const
const PROJECT = join(import.meta.dir, '../..')
const RESTART_MS = 500
const STATUS_MS = 300

type Node = { child: Subprocess | undefined; paused: boolean }

export class LocalCluster {
  private readonly nodes = new Map<number, Node>(NODES.map((n) => [n, { child: undefined, paused: false }]))
  private stopped = false

  private constructor(
    readonly dir: string,
    readonly etcd: EtcdCluster,
    private readonly chain: HostedChain,
    private readonly journal_key: Uint8Array,
    private readonly slot_ms: number,
    private readonly urls: readonly string[],
  ) {}

  /** Starts etcd and the chain; nodes are started by `start`. The folder is made. */
  static async open(dir: string, slot_ms: number, failed: (error: Error) => void): Promise<LocalCluster> {
    const seed = join(dir, 'seed')
    mkdirSync(seed, { recursive: true, mode: 0o700 })
    sandboxSecrets(seed)
    await sandboxAuditor(seed)
    const agent = await openStandInAgent({ data_dir: join(seed, 'stand-in'), app_compose: appCompose() })
    const tls = { names: [] }
    const enclave = await openEnclave({ kind: 'development', agent: { socket: agent.socket }, tls })
    const fee_payer = publicKeyOf(await enclave.deriveKey(KEY_PATHS.fees))
    const genesis = {
      program_path: join(PROJECT, 'program/vault.so'),
      announced: await announcedOf(enclave),
      fee_payer,
    }
    const journal_key = await enclave.deriveKey(KEY_PATHS.journal)
    await enclave.close()
    await agent.close()
    const chain = await hostEmbeddedChain({ data_dir: join(dir, 'chain'), slot_ms, genesis, failed })
    const etcd = await EtcdCluster.start().catch(async (error) => {
      await chain.close()
      throw error
    })
    return new LocalCluster(dir, etcd, chain, journal_key, slot_ms, await freeUrls(2 * NODES.length))
  }

  /** Where the node serves while it leads. */
  urlOf = (node: number): string => this.urls[node - 1]!
  /** Where it answers its operator and the other nodes. */
  operatorUrlOf = (node: number): string => this.urls[NODES.length + node - 1]!
  dirOf = (node: number): string => join(this.dir, `node-${node}`)

  /** Starts a node, again whenever it ends, as a container is. Its keys are those of every node. */
  start(number: number): void {
    const node = this.nodes.get(number)!
    const data_dir = this.dirOf(number)
    if (!existsSync(data_dir)) cpSync(join(this.dir, 'seed'), data_dir, { recursive: true })
    rmSync(join(data_dir, 'laptop.json'), { force: true })
    const der = (text: string, label: string) => Buffer.from(derOfPem(text, label)![0]!).toString('base64')
    const { ca, cert, key } = this.etcd.tls
    const log = openSync(join(data_dir, 'venue.log'), 'a', 0o600)
    const child = Bun.spawn([process.execPath, join(PROJECT, 'server/main.ts')], {
      env: {
        ...process.env,
        TACIT_DATA_DIR: data_dir,
        TACIT_ENCLAVE: 'development',
        TACIT_LISTEN: new URL(this.urlOf(number)).host,
        TACIT_OPERATOR_LISTEN: new URL(this.operatorUrlOf(number)).host,
        TACIT_NODE_URL: this.operatorUrlOf(number),
        TACIT_SLOT_MS: `${this.slot_ms}`,
        SOLANA_RPC_URL: this.chain.url,
        TACIT_PROGRAM_ID: encodeBase58(this.chain.program_id),
        TACIT_ETCD_URLS: this.etcd.endpoints.join(','),
        TACIT_ETCD_CA: der(ca, 'CERTIFICATE'),
        TACIT_ETCD_CERT: der(cert, 'CERTIFICATE'),
        TACIT_ETCD_KEY: der(key, 'PRIVATE KEY'),
      },
      stdin: 'ignore',
      stdout: log,
      stderr: log,
    })
    node.child = child
    node.paused = false
    void child.exited.then(async () => {
      rmSync(join(data_dir, 'laptop.json'), { force: true })
      await Bun.sleep(RESTART_MS)
      if (!this.stopped && node.child === child) this.start(number)
    })
  }

  /** kill -9; the node stays down until it is started. */
  async kill(number: number): Promise<void> {
    const node = this.nodes.get(number)!
    const { child } = node
    node.child = undefined
    child?.kill('SIGKILL')
    await child?.exited
  }

  pause(number: number): void {
    const node = this.nodes.get(number)!
    node.child?.kill('SIGSTOP')
    node.paused = node.child !== undefined
  }
  resume(number: number): void {
    const node = this.nodes.get(number)!
    node.child?.kill('SIGCONT')
    node.paused = false
  }

  /** What the node serves at; undefined while it does not lead. */
  facts(number: number): SandboxFacts | undefined {
    const path = join(this.dirOf(number), 'laptop.json')
    const { child } = this.nodes.get(number)!
    if (child === undefined || !existsSync(path)) return undefined
    return JSON.parse(readFileSync(path, 'utf8')) as SandboxFacts
  }

  /** What the node shows its operator; undefined while it does not answer. */
  async statusOf(
    number: number,
  ): Promise<{ lag_records?: number; right?: { epoch: number } | null } | undefined> {
    const options = { tls: { rejectUnauthorized: false }, signal: AbortSignal.timeout(STATUS_MS) }
    return fetch(`${this.operatorUrlOf(number)}/system/status`, options).then(
      async (answer) => (await answer.json()) as object,
      () => undefined,
    )
  }

  stateOf(number: number): 'down' | 'paused' | 'serves' | 'follows' {
    const { child, paused } = this.nodes.get(number)!
    if (child === undefined) return 'down'
    if (paused) return 'paused'
    return this.facts(number) === undefined ? 'follows' : 'serves'
  }

  /** The shared log, as an onlooker with the venue's key reads it. */
  async log(): Promise<ReplicatedLog> {
    const deployment = await readDeployment([this.chain.url], this.chain.program_id)
    const { genesis_hash, program_id, config_account, config } = deployment
    const venue = venueId({ genesis_hash, program_id, config_account, generation: config.generation })
    const access = { endpoints: this.etcd.endpoints, tls: this.etcd.tls }
    return new ReplicatedLog(new Etcd(access), { key: this.journal_key, venue })
  }

  async stop(): Promise<void> {
    this.stopped = true
    await Promise.all(NODES.map((number) => this.kill(number)))
    await this.chain.close()
    await this.etcd.stop()
  }
}
