/** Runs a whole venue on one machine: simulated guest agent, embedded chain, demo account, and commands to try. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Login } from '../client/api/venue_client'
import { servePages } from '../client/page/serve_pages'
import { newCredential } from '../client/wallet/account'
import { type Enclave, KEY_PATHS } from '../enclave/contract'
import { openChain } from '../engine/chain/open_chain'
import type { ChainPort } from '../engine/index'
import { decodeBase58, encodeBase58 } from '../protocol/base58'
import { fromAnyHex, fromHex } from '../protocol/bytes'
import { deriveAccountKey } from '../protocol/notes/derive'
import { publicKeyOf } from '../protocol/sign'
import { parseQuote } from '../protocol/tdx/quote'
import { appComposeText } from '../protocol/tdx/venue_manifest'
import type { CredentialRequest } from '../protocol/wire/trading'
import { joinProcess, type ProcessParts, type Running } from '../server/join_process'
import { callOperator, DEFAULT_LIMITS, NotReady, signAdmission } from '../tools/account/call_operator'
import { type Announcement, announcementsOf } from '../tools/program/announcements_of'
import { type HostedChain, hostEmbeddedChain } from './chain/host_embedded_chain'
import { openStandInAgent } from './enclave/agent'
import {
  AUDITOR_KEY_FILE,
  machinePolicy,
  OPERATOR_KEY_FILE,
  sandboxPolicy,
  sandboxSecrets,
} from './environment'

export { sandboxEnvironment } from './environment'

/** That of Solana's own test validator, so that a URL stays valid over restarts. */
const CHAIN_PORT = 8899
/** Longest wait for a venue that takes no admission yet, and the interval of attempts. */
const [ADMISSION_MS, ADMISSION_RETRY_MS] = [120_000, 200]
/** Port of the pages, in addition to the venue's own. */
const PAGES_PORT = 8440
const PROJECT = join(import.meta.dir, '..')
/** URLs, addresses and file paths of the running sandbox, for the demo and the wallet; written once it serves. */
const FACTS_FILE = 'laptop.json'
const CERTIFICATE_FILE = 'cert.pem'
const MANIFEST_FILE = 'app-compose.json'
const DEMO_LOGIN_FILE = 'demo-login.json'
/** The body of the demo account's login, for `curl -d @FILE`: a command line is visible to every process. */
const DEMO_BODY_FILE = 'demo-token-request.json'
const POLICY_FILE = 'laptop-policy.json'

export async function openSandbox(parts: ProcessParts, with_counterparty = false): Promise<Running> {
  const { config } = parts
  const { data_dir } = config.engine
  // Rejects a folder whose venue runs; the code after it writes to the folder.
  const app_compose = appCompose()
  const agent = await openStandInAgent({ data_dir: join(data_dir, 'stand-in'), app_compose })
  rmSync(join(data_dir, FACTS_FILE), { force: true })
  let chain: HostedChain | undefined
  const running = await joinProcess({
    ...parts,
    config: { ...config, dstack_socket: agent.socket },
    self_check: { policy: machinePolicy(agent.root_pem), collect: async () => agent.collateral() },
    async openChain(enclave, hash): Promise<ChainPort> {
      // Whole, and before the first connection: a client that trusts this file alone never meets another key.
      const certificate = join(data_dir, CERTIFICATE_FILE)
      writeFileSync(`${certificate}.new`, enclave.tls.cert_pem)
      renameSync(`${certificate}.new`, certificate)
      if (config.rpc_urls !== undefined) return parts.openChain(enclave, hash)
      const fee_seed = await enclave.deriveKey(KEY_PATHS.fees)
      chain = await hostEmbeddedChain({
        data_dir: join(data_dir, 'chain'),
        slot_ms: config.slot_ms,
        port: CHAIN_PORT,
        genesis: {
          program_path: join(PROJECT, 'program/vault.so'),
          announced: await announcedOf(enclave),
          fee_payer: publicKeyOf(fee_seed),
        },
        failed(error) {
          console.error(
            `${error.message}. The venue ends with it; started again, it goes on with the same data.`,
          )
          parts.fatal(error)
        },
      })
      if (!chain.url.endsWith(`:${CHAIN_PORT}`))
        console.log(`Port ${CHAIN_PORT} is in use: until the next start the chain serves at ${chain.url}.`)
      return openChain({
        rpc_urls: [chain.url],
        program_id: chain.program_id,
        settlement_seed: enclave.settlement_seed,
        authority_seed: await enclave.deriveKey(KEY_PATHS.epoch_authority),
        quoteEpoch: (bound) => enclave.quoteEpoch(bound),
        fee_seed,
        hash,
        slot_ms: config.slot_ms,
        monotonicMs: parts.clock.monotonicMs,
      })
    },
  })
  const login = await demoLogin(running, data_dir, config.engine.operator_key)
  // Its hash is the compose hash: no byte may be added.
  writeFileSync(join(data_dir, MANIFEST_FILE), app_compose)
  const served = factsOf(running, data_dir, chain?.url ?? config.rpc_urls![0]!)
  // It needs the faucet of the embedded chain and the operator's key of this folder.
  const has_other = with_counterparty && chain !== undefined && login !== undefined
  const pages = announce(running, data_dir, { ...served, admin: chain?.admin }, login, has_other)
  const other = has_other ? openCounterparty(data_dir) : undefined
  return {
    ...running,
    async stop() {
      other?.kill()
      await pages.stop()
      await running.stop()
      await chain?.close()
      await agent.close()
    },
  }
}

/** Another process, as a trader's is. */
function openCounterparty(data_dir: string): Bun.Subprocess<'pipe', 'ignore', 'inherit'> {
  const script = join(import.meta.dir, 'demo/counterparty.ts')
  const streams = { stdin: 'pipe', stdout: 'ignore', stderr: 'inherit' } as const
  const child = Bun.spawn([process.execPath, script, data_dir], streams)
  child.unref()
  return child
}

/** The build and machine that the stand-in's quote shows, in the form in which a vault announces them. */
export async function announcedOf(enclave: Pick<Enclave, 'keyProof'>): Promise<Announcement[]> {
  const { quote, event_log, tee_pubkey } = await enclave.keyProof('epoch_authority')
  return announcementsOf(parseQuote(fromAnyHex(quote)!), event_log, decodeBase58(tee_pubkey, 32)!)
}

/**
 * The demo trader's login, made as `tacit account request` makes one and admitted as `bun run account admit` does. It is kept
 * until the venue has another id; undefined while a venue that must not trade takes none, and where another operator's key is set.
 */
async function demoLogin(
  running: Running,
  data_dir: string,
  operator_key: string,
): Promise<Login | undefined> {
  const { venue } = running
  const path = join(data_dir, DEMO_LOGIN_FILE)
  const { venue: venue_id } = venue.identity()
  const kept = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined
  if (kept?.venue === venue_id && kept.login.account_id !== undefined) return kept.login
  if (venue.status().matching === 'stopped') return undefined
  const { demo_seed, operator_seed } = sandboxSecrets(data_dir)
  // An operator with their own key admits by hand.
  if (encodeBase58(publicKeyOf(fromHex(operator_seed, 32)!)) !== operator_key) return undefined
  const account_seed = deriveAccountKey(fromHex(demo_seed, 32)!)
  const terms = { kind: 'trade', version: Date.now(), expiry_s: 0 } as const
  const { login, request } = await newCredential(account_seed, fromHex(venue_id, 32)!, terms)
  await admit(running, data_dir, request)
  writeFileSync(path, JSON.stringify({ venue: venue_id, login }, null, 2), { mode: 0o600 })
  return login
}

/** Admits the account that signed a credential's request, as the operator of this venue. @throws Error when the venue rejects */
async function admit(running: Running, data_dir: string, request: CredentialRequest): Promise<void> {
  const target = {
    url: `https://localhost:${running.operator.port}`,
    venue: fromHex(running.venue.identity().venue, 32)!,
    operator_seed: fromHex(sandboxSecrets(data_dir).operator_seed, 32)!,
    ca: running.enclave.tls.cert_pem,
  }
  const account_key = decodeBase58(request.account_key, 32)
  if (account_key === undefined) throw new Error('the request names no account key')
  const terms = { version: request.version, state: 'active', limits: DEFAULT_LIMITS } as const
  const record = signAdmission({ ...terms, account_key }, target)
  const deadline = Date.now() + ADMISSION_MS
  let now_ms = 0
  // A busy machine loses its lease for a moment: a request that changed nothing is sent again.
  const post = async (at: string, body: unknown): Promise<void> => {
    for (;;) {
      now_ms = Math.max(Date.now(), now_ms + 1)
      try {
        await callOperator(target, { method: 'POST', path: at, body: JSON.stringify(body) }, now_ms)
        return
      } catch (error) {
        if (!(error instanceof NotReady) || now_ms > deadline) throw error
        await Bun.sleep(ADMISSION_RETRY_MS)
      }
    }
  }
  await post('/accounts', record)
  await post('/accounts/credentials', request)
}

/** The manifest of the imaginary machine. */
export function appCompose(): string {
  const path = join(PROJECT, 'compose.yaml')
  return appComposeText({
    name: 'tacit',
    docker_compose_file: existsSync(path) ? readFileSync(path, 'utf8') : '',
    key_provider: 'none',
    allowed_envs: [],
    secure_time: false,
  })
}

type VenueFacts = ReturnType<typeof factsOf>
/** Content of `laptop.json`. */
export type SandboxFacts = VenueFacts & { pages_url: string }

function factsOf({ venue, enclave, listener, operator }: Running, data_dir: string, rpc_url: string) {
  const path = (...names: string[]) => join(data_dir, ...names)
  const { program_id, config_account } = venue.identity()
  return {
    url: `https://localhost:${listener.port}`,
    operator_url: `https://localhost:${operator.port}`,
    rpc_url,
    program_id,
    config_account,
    compose_hash: enclave.identity.compose_hash,
    certificate: path(CERTIFICATE_FILE),
    root_pem: path('stand-in', 'development-root.pem'),
    collateral: path('stand-in', 'collateral.json'),
    operator_key: path(OPERATOR_KEY_FILE),
    /** Reads exports of batches (`tacit audit-batch`). */
    auditor_key: path(AUDITOR_KEY_FILE),
    /** Exact text of the measured manifest. */
    manifest: path(MANIFEST_FILE),
    /** Accepts this build and its development root, nothing else. */
    policy: path(POLICY_FILE),
  }
}

function openPages(running: Running, data_dir: string, facts: VenueFacts) {
  const read = (path: string) => readFileSync(path, 'utf8')
  const { genesis_hash, config_account } = running.venue.identity()
  return servePages({
    port: PAGES_PORT,
    defaults: {
      url: facts.url,
      vault: `${genesis_hash}/${config_account}`,
      policy: read(facts.policy),
      collateral: read(facts.collateral),
      rpc_url: facts.rpc_url,
      is_laptop: true,
    },
    admit: (request) => admit(running, data_dir, request),
  })
}

type Served = VenueFacts & { admin: Uint8Array | undefined }

function announce(
  running: Running,
  data_dir: string,
  build: Served,
  login: Login | undefined,
  has_counterparty: boolean,
) {
  const { venue, enclave } = running
  const { admin, ...served } = build
  writeFileSync(served.policy, sandboxPolicy({ ...served, admin, app_id: enclave.identity.app_id }))
  const pages = openPages(running, data_dir, served)
  if (!pages.url.endsWith(`:${PAGES_PORT}`))
    console.log(
      `Port ${PAGES_PORT} is in use: until the next start the pages are at ${pages.url}. A browser keeps a wallet for one address: save a backup of one that is made there.`,
    )
  const facts: SandboxFacts = { ...served, pages_url: pages.url }
  const path = join(data_dir, FACTS_FILE)
  writeFileSync(`${path}.new`, JSON.stringify(facts, null, 2), { mode: 0o600 })
  renameSync(`${path}.new`, path)
  const body = join(data_dir, DEMO_BODY_FILE)
  if (login === undefined) rmSync(body, { force: true })
  else {
    const { api_key, api_secret, passphrase } = login
    writeFileSync(body, JSON.stringify({ api_key, api_secret, passphrase }), { mode: 0o600 })
  }
  const { matching, reasons } = venue.status()
  const halted = matching === 'running' ? undefined : reasons
  const demo = login === undefined ? undefined : { api_key: login.api_key, body }
  console.log(announcement(facts, { demo, has_counterparty, halted }))
  return pages
}

type Opened = {
  demo: { api_key: string; body: string } | undefined
  has_counterparty: boolean
  /** Reasons of a venue that does not trade, as `/system/status` has them. */
  halted: readonly string[] | undefined
}
function announcement(facts: SandboxFacts, { demo, has_counterparty, halted }: Opened): string {
  const { url, pages_url, rpc_url, certificate, policy, collateral } = facts
  const curl = `curl --cacert ${certificate}`
  const counterparty = has_counterparty
    ? '\n  counterparty  a demo account that sells SOL at 150 USDC and buys it at 149, in some seconds'
    : ''
  const not_trading = halted === undefined ? '' : `\n  not trading: ${halted.join('; ')}`
  return `
Tacit serves at ${url}${not_trading}
  pages         ${pages_url} (market, trade, verify)
  reference     ${url}/swagger
  chain         ${rpc_url} (embedded unless you named another)
  certificate   ${certificate}
  demo account  ${demo === undefined ? 'none yet' : `api_key ${demo.api_key}; its secrets are in ${demo.body}`}${counterparty}
  enclave       a stand-in: its quotes prove nothing to anyone who does not name its root

Try
  ${curl} ${url}/system/status
  ${curl} ${url}/instruments
  ${curl} ${url}/auth/token -H 'content-type: application/json' -d @${demo?.body ?? 'LOGIN_FILE'}
  bun run tacit verify ${url} --policy ${policy} --collateral ${collateral}
`
}
