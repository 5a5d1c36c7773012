/** Three members of etcd, three nodes and one chain on this machine, each node a process that can be killed and paused. */

import { cpSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { readPeer } from '../../client/verify/collect/pinned_transport'
import { KEY_PATHS } from '../../enclave/contract'
import { openEnclave } from '../../enclave/index'
import { readDeployment } from '../../engine/chain/client/read_vault'
import { Etcd } from '../../engine/cluster/etcd'
import { ReplicatedLog } from '../../engine/cluster/replicated_log'
import { encodeBase58 } from '../../protocol/base58'
import { venueId } from '../../protocol/bodies/statements'
import { fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { derOfPem } from '../../protocol/x509/certificate'
import { callOperator } from '../../tools/account/call_operator'
import { type HostedChain, type HostOptions, hostEmbeddedChain } from '../chain/host_embedded_chain'
import { openStandInAgent } from '../enclave/agent'
import { sandboxAuditor, sandboxSecrets } from '../environment'
import { announcedOf, appCompose, type SandboxFacts } from '../open_sandbox'
import { EtcdCluster, freeUrls } from './etcd_cluster'

export const NODES = [1, 2, 3] as const
export const PROJECT = join(import.meta.dir, '../..')
const RESTART_MS = 500
const STATUS_MS = 300
const PEER_MS = 5_000
const LOOK_MS = 20

type Chain = Pick<HostedChain, 'url' | 'program_id' | 'close'>
type HostChain = (options: HostOptions) => Promise<Chain>
type Node = { child: Subprocess | undefined; paused: boolean; project: string }
/** A node's status for its operator. */
export type NodeStatus = {
  role: 'leading' | 'following'
  version: number
  carried: number[]
  lag_records?: number
  right?: { epoch: number; seq: number } | null
}

export class LocalCluster {
  private readonly nodes: Map<number, Node>
  private stopped = false

  private constructor(
    readonly dir: string,
    readonly etcd: EtcdCluster,
    private readonly chain: Chain,
    private readonly journal_key: Uint8Array,
    private readonly slot_ms: number,
    private readonly urls: readonly string[],
  ) {
    const numbers = Array.from({ length: urls.length / 2 }, (_, at) => at + 1)
    this.nodes = new Map(numbers.map((n) => [n, { child: undefined, paused: false, project: PROJECT }]))
  }

  /** Starts etcd and the chain; nodes, numbered from 1, are started by `start`. The folder is made. */
  static async open(
    dir: string,
    slot_ms: number,
    failed: (error: Error) => void,
    { count = NODES.length, host = hostEmbeddedChain }: { count?: number; host?: HostChain } = {},
  ): Promise<LocalCluster> {
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
    const chain = await host({ data_dir: join(dir, 'chain'), slot_ms, genesis, failed })
    const etcd = await EtcdCluster.start().catch(async (error) => {
      await chain.close()
      throw error
    })
    return new LocalCluster(dir, etcd, chain, journal_key, slot_ms, await freeUrls(2 * count))
  }

  /** Where the node serves while it leads. */
  urlOf = (node: number): string => this.urls[node - 1]!
  /** Where it answers its operator and the other nodes. */
  operatorUrlOf = (node: number): string => this.urls[this.nodes.size + node - 1]!
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
    const child = Bun.spawn([process.execPath, join(node.project, 'server/main.ts')], {
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

  /**
   * Ends a node in order, as `drain` does, and starts it from the build in `project`; one that leads gives its term away first.
   * Resolves with its exit code.
   */
  async replace(number: number, project = PROJECT): Promise<number | undefined> {
    const node = this.nodes.get(number)!
    const { child } = node
    node.project = project
    child?.kill('SIGTERM')
    if (child === undefined) this.start(number)
    return child?.exited
  }

  /**
   * Replaces every node by the build in `project` while the others serve: those that follow, then the one that leads. The
   * newest version that all carry is put in force as soon as the leading build carries it, too.
   */
  async upgrade(project: string, say: (line: string) => void): Promise<void> {
    const leading = await this.serving()
    for (const number of NODES.filter((one) => one !== leading)) await this.replaceWhole(number, project, say)
    const newest = await this.activateNewest(say)
    await this.replaceWhole(leading, project, say)
    if (!newest) await this.activateNewest(say)
  }

  private async replaceWhole(number: number, project: string, say: (line: string) => void): Promise<void> {
    say(`node ${number} is replaced`)
    await this.replace(number, project)
    await this.untilStatus(number, ({ lag_records, right }) => lag_records === 0 && Boolean(right))
  }

  /** Whether the version is in force; not where the leading node, or another one, does not carry it. */
  private async activateNewest(say: (line: string) => void): Promise<boolean> {
    const statuses = await Promise.all(NODES.map((number) => this.untilStatus(number, () => true)))
    const version = Math.max(...statuses.flatMap(({ carried }) => carried))
    const attempt = (): Promise<boolean> =>
      this.activate(version).then(
        () => true,
        async ({ message }: Error) => {
          if (message.includes('version_unsupported')) return false
          // Another node has begun to lead; the call may be repeated.
          if (!/did not answer|lease_lost|draining|outcome_unknown/.test(message)) throw new Error(message)
          await Bun.sleep(STATUS_MS)
          return attempt()
        },
      )
    const is_active = await attempt()
    say(`version ${version} ${is_active ? 'is in force' : 'is not carried by every node yet'}`)
    return is_active
  }

  /** As `bun run account activate` does. @throws the venue's rejection */
  async activate(version: number): Promise<void> {
    const url = this.operatorUrlOf(await this.serving())
    const ca = (await readPeer(new URL(url), PEER_MS)).leaf_pem
    const operator_seed = fromHex(sandboxSecrets(join(this.dir, 'seed')).operator_seed, 32)!
    const deployed = await this.deployed()
    const venue = venueId({ ...deployed, generation: deployed.config.generation })
    const target = { url, ca, operator_seed, venue }
    const call = { method: 'POST', path: '/activate', body: JSON.stringify({ version }) } as const
    await callOperator(target, call, Date.now())
  }

  /** The node that serves, once one does. */
  async serving(): Promise<(typeof NODES)[number]> {
    for (;;) {
      const number = NODES.find((one) => this.stateOf(one) === 'serves')
      if (number !== undefined) return number
      await Bun.sleep(LOOK_MS)
    }
  }

  /** Resolves with the node's status once it is as expected. */
  async untilStatus(number: number, holds: (status: NodeStatus) => boolean): Promise<NodeStatus> {
    for (;;) {
      const status = await this.statusOf(number)
      if (status !== undefined && holds(status)) return status
      await Bun.sleep(LOOK_MS)
    }
  }

  pidOf = (number: number): number => this.nodes.get(number)!.child!.pid

  /** The node's URL; undefined while it does not lead. */
  facts(number: number): SandboxFacts | undefined {
    const path = join(this.dirOf(number), 'laptop.json')
    const { child } = this.nodes.get(number)!
    if (child === undefined || !existsSync(path)) return undefined
    return JSON.parse(readFileSync(path, 'utf8')) as SandboxFacts
  }

  /** The node's status for its operator; undefined while it does not answer. */
  async statusOf(number: number): Promise<NodeStatus | undefined> {
    const options = { tls: { rejectUnauthorized: false }, signal: AbortSignal.timeout(STATUS_MS) }
    return fetch(`${this.operatorUrlOf(number)}/system/status`, options).then(
      async (answer) => (await answer.json()) as NodeStatus,
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
    const access = { endpoints: this.etcd.endpoints, tls: this.etcd.tls }
    // It keeps the name of the first generation.
    const venue = venueId({ ...(await this.deployed()), generation: 0 })
    return new ReplicatedLog(new Etcd(access), { key: this.journal_key, venue })
  }
  private deployed() {
    return readDeployment([this.chain.url], this.chain.program_id)
  }

  async stop(): Promise<void> {
    this.stopped = true
    await Promise.all([...this.nodes.keys()].map((number) => this.kill(number)))
    await this.chain.close()
    await this.etcd.stop()
  }
}
