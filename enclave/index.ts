/** Opens the enclave: agent, keys, own quote, TLS and evidence behind one interface. */

import { encodeBase58 } from '../protocol/base58'
import { fromHex } from '../protocol/bytes'
import { type SigningKey, signingKey } from '../protocol/ed25519'
import { Refusal } from '../protocol/refusals'
import { attestationReportData, LINK_SIDES } from '../protocol/tdx/quote'
import { epochReportData } from '../protocol/vault/epochs'
import type { Attestation } from '../protocol/wire/trading'
import {
  AgentFailure,
  type AgentInfo,
  type AgentQuote,
  getInfo,
  getKey,
  getQuote,
  requireRoot,
  requireSocket,
} from './agent'
import {
  certifyStatementKey,
  composeAttestation,
  QuoteQueue,
  ServedIdentity,
  type StatementCertificate,
} from './attestation'
import {
  type Enclave,
  type EnclaveIdentity,
  type EpochQuote,
  KEY_PATHS,
  type KeyPath,
  type ProvedKey,
  type TlsMaterial,
  type VenueBinding,
} from './contract'
import { ENCLAVE_LIMITS, type EnclaveLimits } from './limits'

export {
  type ChallengeSolver,
  challengeCertificate,
  dnsSolver,
  type IssuedCertificate,
  issueCertificate,
  type SealedStore,
  sealCertificate,
  unsealCertificate,
} from './acme/issue_certificate'

export type EnclaveOptions = {
  /** `dstack` starts only where the own quote is signed up to Intel's root. */
  kind: 'dstack' | 'development'
  agent: { /** Path of the guest agent's unix socket. */ socket: string }
  tls: { /** DNS names and IPv4 addresses beside `localhost` and `127.0.0.1`. */ names: string[] }
  /** Shorter bounds for tests. */
  limits?: Partial<EnclaveLimits>
}

/**
 * Ready when it resolves, except for `bind`.
 * @throws EnclaveRefused where it must not start; AgentFailure when the agent gives no usable answer.
 */
export async function openEnclave(options: EnclaveOptions): Promise<Enclave> {
  const { kind, agent, tls } = options
  const limits = { ...ENCLAVE_LIMITS, ...options.limits }
  requireSocket(agent.socket)
  const info = await getInfo(agent.socket, limits.agent_call_ms)
  const settlement_seed = crypto.getRandomValues(new Uint8Array(32))
  const settlement_key = signingKey(settlement_seed)
  const queue = new QuoteQueue(limits)
  const ownQuote = (report_data: Uint8Array) =>
    queue.run(() => getQuote(agent.socket, report_data, limits.quote_call_ms), true)
  const served = await ServedIdentity.open(tls.names, settlement_key.public_key, ownQuote, limits)
  try {
    requireRoot(kind, served.current.plain_quote.parsed)
    return new OpenEnclave({
      kind,
      socket: agent.socket,
      limits,
      info,
      settlement_seed,
      settlement_key,
      queue,
      ownQuote,
      served,
    })
  } catch (error) {
    served.close()
    throw error
  }
}

type Parts = {
  kind: 'dstack' | 'development'
  socket: string
  limits: EnclaveLimits
  info: AgentInfo
  settlement_seed: Uint8Array
  settlement_key: SigningKey
  queue: QuoteQueue
  ownQuote: (report_data: Uint8Array) => Promise<AgentQuote>
  served: ServedIdentity
}
type Bound = VenueBinding & { certificate: StatementCertificate }

class OpenEnclave implements Enclave {
  readonly identity: EnclaveIdentity
  readonly settlement_seed: Uint8Array
  /** New for each boot: its certificate names the epoch, and a key of an older epoch must not survive. */
  readonly statement_seed = crypto.getRandomValues(new Uint8Array(32))
  private readonly statement_key = signingKey(this.statement_seed)
  private bound: Bound | undefined
  private last_plain: { slot: number; quote: AgentQuote; tls: TlsMaterial; answer: Attestation } | undefined

  constructor(private readonly parts: Parts) {
    const { kind, info, settlement_key, settlement_seed } = parts
    this.identity = { ...info, kind, tee_pubkey: settlement_key.public_key }
    this.settlement_seed = settlement_seed
  }

  async deriveKey(path: KeyPath): Promise<Uint8Array> {
    return refusing(() => getKey(this.parts.socket, path, this.parts.limits.agent_call_ms))
  }

  async quoteEpoch(bound: Parameters<Enclave['quoteEpoch']>[0]): Promise<EpochQuote> {
    const settlement_signer = this.identity.tee_pubkey
    return refusing(() => this.parts.ownQuote(epochReportData({ ...bound, settlement_signer })))
  }

  async bind(binding: VenueBinding): Promise<void> {
    if (binding.epoch < 1) throw new RangeError('epoch 0 is of no node that leads')
    this.bindTo(binding)
  }

  follow(binding: Omit<VenueBinding, 'epoch'>): void {
    if (this.bound !== undefined && this.bound.epoch > 0) throw new RangeError('a node that has led ends')
    this.bindTo({ ...binding, epoch: 0 })
  }

  private bindTo(binding: VenueBinding): void {
    const certificate = certifyStatementKey(this.parts.settlement_key, this.statement_key, binding)
    this.bound = { ...binding, certificate }
    this.last_plain = undefined
  }

  statement(): { key: Uint8Array; certificate: Uint8Array; certificate_signature: Uint8Array } {
    const { certificate } = this.requireBound()
    return {
      key: this.statement_key.public_key,
      certificate: certificate.body,
      certificate_signature: certificate.signature,
    }
  }

  async attestation(nonce_hex?: string, is_shared = false): Promise<Attestation> {
    const bound = this.requireBound()
    if (nonce_hex === undefined) return this.plainAttestation(bound)
    const { quote, nonce } = await this.freshQuote(nonce_hex, this.identity.tee_pubkey, is_shared)
    return this.compose(bound, quote, nonce, this.tls, bound.slot())
  }

  async keyProof(of: ProvedKey, nonce_hex = '00'.repeat(32)): Promise<Omit<Attestation, 'binding'>> {
    const key = await this.provedKey(of)
    const is_own = Object.hasOwn(LINK_SIDES, of)
    const { quote, event_log, report_data, vm_config } = (await this.freshQuote(nonce_hex, key, is_own)).quote
    const { kind: enclave } = this.identity
    return { quote, event_log, report_data, vm_config, tee_pubkey: encodeBase58(key), enclave }
  }

  private async provedKey(of: ProvedKey): Promise<Uint8Array> {
    if (of === 'settlement') return this.identity.tee_pubkey
    if (of !== 'epoch_authority') return LINK_SIDES[of]
    return signingKey(await this.deriveKey(KEY_PATHS.epoch_authority)).public_key
  }

  private async freshQuote(
    nonce_hex: string,
    key: Uint8Array,
    is_own = false,
  ): Promise<{ quote: AgentQuote; nonce: Uint8Array }> {
    const nonce = fromHex(nonce_hex, 32)
    if (nonce === undefined) throw new Refusal('field_invalid', { field: 'reportData' })
    const { socket, limits, queue } = this.parts
    const report_data = attestationReportData(nonce, key)
    const call = () => getQuote(socket, report_data, limits.quote_call_ms)
    const quote = await refusing(() => queue.run(call, is_own))
    return { quote, nonce }
  }

  /** The quote is cached; the binding is signed again when the slot or the certificate changes. */
  private plainAttestation(bound: Bound): Attestation {
    const slot = bound.slot()
    const { plain_quote: quote, tls } = this.parts.served.current
    const last = this.last_plain
    if (last !== undefined && last.slot === slot && last.quote === quote && last.tls === tls)
      return last.answer
    const answer = this.compose(bound, quote, new Uint8Array(32), tls, slot)
    this.last_plain = { slot, quote, tls, answer }
    return answer
  }

  private compose(
    bound: Bound,
    quote: AgentQuote,
    nonce: Uint8Array,
    tls: TlsMaterial,
    slot: number,
  ): Attestation {
    const { venue, epoch, certificate } = bound
    const { tee_pubkey, instance_id, kind } = this.identity
    const { spki_sha256 } = tls
    const { statement_key } = this
    return composeAttestation({
      quote,
      nonce,
      tee_pubkey,
      kind,
      instance_id,
      spki_sha256,
      venue,
      epoch,
      slot,
      statement_key,
      certificate,
    })
  }

  get tls(): TlsMaterial {
    return this.parts.served.current.tls
  }

  async rotateTls(next?: TlsMaterial): Promise<TlsMaterial> {
    return refusing(() => this.parts.served.rotate(next))
  }

  evidence(name: string): { content_type: string; body: string } | undefined {
    return this.parts.served.current.evidence.get(name)
  }

  evidenceNames(): string[] {
    return [...this.parts.served.current.evidence.keys()]
  }

  async close(): Promise<void> {
    this.parts.served.close()
    this.parts.queue.close()
  }

  private requireBound(): Bound {
    if (this.bound === undefined) throw new Refusal('enclave_unavailable')
    return this.bound
  }
}

/** After boot, a failure of the agent rejects the call instead of ending the process. */
async function refusing<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof AgentFailure) throw new Refusal('enclave_unavailable', { subsystem: 'enclave' })
    throw error
  }
}
