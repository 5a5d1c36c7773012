/**
 * Opens a simulated guest agent for development and tests: dstack's socket API, with real TDX quote structures signed
 * under a development root. DEVELOPMENT ONLY: verifiers reject it without that root, and a deployment does not start on it.
 */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toHex, utf8 } from '../../protocol/bytes'
import { pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { Collateral } from '../../protocol/tdx/collateral'
import { agentMethods, NO_FAULTS, type StandInKnobs, serveAgent } from './agent'
import { issueAuthorities, startQuotingEnclave, storeRoot } from './authorities'
import { issueCollateral } from './collateral'
import { loadKeys } from './keys'

type StandInOptions = {
  /** Keeps `development-keys.json`, `development-root.pem` and `collateral.json`; made with mode 0700 when absent. */
  data_dir: string
  /** Exact text of the app-compose.json the imaginary machine booted. */
  app_compose: string
  knobs?: Partial<StandInKnobs>
}

export type StandInAgent = {
  /** Path of the unix socket; give it to `openEnclave`. */
  readonly socket: string
  /** The development root, PEM, for verifiers that accept this machine. */
  readonly root_pem: string
  /** 64 hex digits of SHA-256 of `app_compose`. */
  readonly compose_hash: string
  /** May be changed while the agent runs. */
  readonly knobs: StandInKnobs
  /** The collateral a verifier needs in addition to the root, signed now. */
  collateral(): Collateral
  /** Drops every connection and serves again on the same socket. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** Longest path a unix socket address holds on every system (sockaddr_un of macOS: 104 bytes with its end). */
const SOCKET_PATH_MAX = 103

/** @throws when another agent serves the folder or its key file is damaged. */
export async function openStandInAgent(options: StandInOptions): Promise<StandInAgent> {
  const { data_dir, app_compose } = options
  mkdirSync(data_dir, { recursive: true, mode: 0o700 })
  const compose_hash = sha256(utf8(app_compose))
  const keys = loadKeys(data_dir, compose_hash)
  const authorities = issueAuthorities(data_dir, keys, Date.now())
  const knobs: StandInKnobs = { ...NO_FAULTS, ...options.knobs }
  const collateral = () => issueCollateral(keys, authorities, knobs, Date.now())
  storeRoot(data_dir, authorities.root)
  writeFileSync(join(data_dir, 'collateral.json'), `${JSON.stringify(collateral(), null, 2)}\n`)

  const socket = socketPath(data_dir)
  await removeStaleSocket(socket)
  const quoting_enclave = startQuotingEnclave(authorities, keys.pck)
  const methods = agentMethods({ keys, quoting_enclave, app_compose, compose_hash, knobs })
  let server = serveAgent(socket, methods)
  const stop = async () => {
    await server.stop()
    rmSync(socket, { force: true })
  }
  return {
    socket,
    root_pem: pemOfDer(authorities.root, 'CERTIFICATE'),
    compose_hash: toHex(compose_hash),
    knobs,
    collateral,
    async restart() {
      await stop()
      server = serveAgent(socket, methods)
    },
    close: stop,
  }
}

function socketPath(data_dir: string): string {
  const path = join(data_dir, 'agent.sock')
  if (Buffer.byteLength(path) <= SOCKET_PATH_MAX) return path
  const short_dir = mkdtempSync(join(tmpdir(), 'tacit-'))
  chmodSync(short_dir, 0o700)
  return join(short_dir, 'agent.sock')
}

/** A process that was killed leaves its socket behind. */
async function removeStaleSocket(socket: string): Promise<void> {
  if (!existsSync(socket)) return
  const alive = await fetch('http://dstack/Version', {
    unix: socket,
    signal: AbortSignal.timeout(1_000),
  }).then(
    () => true,
    () => false,
  )
  if (alive)
    throw new Error(
      `a venue runs on this folder: another stand-in agent answers at ${socket}; stop it, or set TACIT_DATA_DIR to another folder`,
    )
  rmSync(socket, { force: true })
}
