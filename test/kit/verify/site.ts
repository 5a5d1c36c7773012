/** A venue reduced to a verifier's view: real enclave, real vault on an embedded chain, evidence over TLS; its policy. */

import { join } from 'node:path'
import type { Instruction, KeyPairSigner } from '@solana/kit'
import { connect } from '../../../client/connect'
import type { ConnectOptions, VerifiedVenue } from '../../../client/verified_venue'
import type { Collateral } from '../../../client/verify/index'
import { parsePolicy, type VerificationPolicy } from '../../../client/verify/policy'
import { KEY_PATHS, type TlsMaterial } from '../../../enclave/contract'
import { buildTransaction } from '../../../engine/chain/client/build_transaction'
import { openChain } from '../../../engine/chain/open_chain'
import type { HashPort } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { venueId } from '../../../protocol/bodies/statements'
import { fromHex, toHex } from '../../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../../protocol/sign'
import type { Info } from '../../../protocol/wire/public'
import { makeGenesis } from '../../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import type { StandInKnobs } from '../../../sandbox/enclave/agent'
import { announcedOf } from '../../../sandbox/open_sandbox'
import { type Machine, openMachine, openOn } from '../../enclave/machine'
import { chainFolder, clientsOf } from '../chain/chain_folder'

const PROGRAM = join(import.meta.dir, '../../../program/vault.so')
const SLOT_MS = 10
/** Nothing settles here, so nothing may ask. */
const NO_HASHING = new Proxy({} as HashPort, {
  get(_port, name) {
    throw new Error(`nothing is hashed here, not even ${String(name)}`)
  },
})

export type Site = {
  url: string
  machine: Machine
  chain: OpenedChain
  policy: VerificationPolicy
  /** Key of the vault's signer: the machine could sign with it if it lied. */
  settlement_seed: Uint8Array
  /** The answer of each path, which an attack can replace. */
  answers: Map<string, (nonce: string | undefined) => Promise<string> | string>
  /** Paths asked since the last look, in order. */
  asked: string[]
  /** The slot that the venue states with its key from now on. */
  stateSlot(slot: number): void
  /** Serves under another TLS key from now on, on the same port. */
  swapTls(material: TlsMaterial): void
  /** Honest answers and TLS key again. */
  restore(): void
  connect(change?: Partial<VerificationPolicy>, options?: ConnectOptions): Promise<VerifiedVenue>
  close(): Promise<void>
}

export async function openSite(knobs: Partial<StandInKnobs> = {}, app_compose?: string): Promise<Site> {
  const machine = await openMachine(knobs, app_compose)
  const enclave = await openOn(machine.agent)
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: SLOT_MS })
  let slot = 5
  const { port, info } = await openEpoch(chain, enclave, () => slot)
  const answers: Site['answers'] = new Map()
  answers.set('/info', () => JSON.stringify(info))
  answers.set('/attestation', async (nonce) => JSON.stringify(await enclave.attestation(nonce)))
  for (const name of enclave.evidenceNames())
    answers.set(`/evidences/${name}`, () => enclave.evidence(name)!.body)
  const honest = [...answers]
  const asked: string[] = []
  const open = (material: TlsMaterial, at = 0) => serve(material, at, answers, asked)
  let server = open(enclave.tls)
  const url = `https://127.0.0.1:${server.port}`
  const policy = policyOf(machine, chain, info.program_id)
  const swapTls = (material: TlsMaterial): void => {
    const at = server.port!
    server.stop(true)
    server = open(material, at)
  }
  return {
    url,
    machine,
    chain,
    policy,
    settlement_seed: enclave.settlement_seed,
    answers,
    asked,
    stateSlot(stated) {
      slot = stated
    },
    swapTls,
    restore() {
      for (const [path, answer] of honest) answers.set(path, answer)
      swapTls(enclave.tls)
    },
    connect: (change = {}, options = {}) =>
      connect(url, changedPolicy(policy, change), { collateral: machine.agent.collateral(), ...options }),
    async close() {
      await server.stop(true)
      await port.close()
      await chain.close()
      await enclave.close()
      await machine.close()
      folder.remove()
    },
  }
}

/** Makes the vault, opens its first epoch and binds the enclave to it. */
async function openEpoch(
  chain: OpenedChain,
  enclave: Awaited<ReturnType<typeof openOn>>,
  slot: () => number,
): Promise<{ port: Awaited<ReturnType<typeof openChain>>; info: Info }> {
  const { app_id, instance_id, tee_pubkey, compose_hash } = enclave.identity
  const fee_seed = await enclave.deriveKey(KEY_PATHS.fees)
  const terms = { announced: await announcedOf(enclave), fee_payer: publicKeyOf(fee_seed) }
  const program_id = await makeGenesis(chain, { program_path: PROGRAM, ...terms })
  const port = await openChain({
    rpc_urls: [chain.url],
    program_id,
    settlement_seed: enclave.settlement_seed,
    authority_seed: await enclave.deriveKey(KEY_PATHS.epoch_authority),
    quoteEpoch: (bound) => enclave.quoteEpoch(bound),
    fee_seed,
    slot_ms: SLOT_MS,
    hash: NO_HASHING,
  })
  const boot = { epoch: 1, boot_nonce: new Uint8Array(16).fill(1), compose_hash: fromHex(compose_hash, 32)! }
  const history = { seq: 0, head: new Uint8Array(32), spentRoot: async () => EMPTY_SPENT_SUBTREES.at(-1) }
  const passes = async () => true
  await port.openEpoch({ ...boot, ...history, passes, restore: false }, async () => {})
  const { genesis_hash, config_account } = port
  const venue = venueId({ genesis_hash, program_id, config_account, generation: 0 })
  const { generation, exit_delay_s } = await port.readConfig()
  await enclave.bind({ venue, epoch: 1, slot })
  const info = {
    app_id,
    instance_id,
    compose_hash,
    tee_pubkey: encodeBase58(tee_pubkey),
    tacit_version: '0.0.0',
    venue: toHex(venue),
    config_account: encodeBase58(config_account),
    program_id: encodeBase58(program_id),
    genesis_hash: encodeBase58(genesis_hash),
    generation,
    epoch: 1,
    exit_delay_s,
  }
  return { port, info }
}

/** The reasons for which an honest site's checks are skipped under its policy, in the order of the checks. */
export const SITE_SKIPS = [
  'xfam_unpinned',
  'app_unpinned',
  'key_provider_unpinned',
  'manifest_absent',
  'rpc_operators_unpinned',
  'os_image_unpinned',
  'keys_without_kms',
  'exit_delay_unpinned',
  'admin_unpinned',
  'machines_unpinned',
  'location_unnamed',
] as const

function policyOf(machine: Machine, chain: OpenedChain, program_id: string): VerificationPolicy {
  const policy = {
    compose_hashes: [machine.agent.compose_hash],
    tcb_statuses: ['UpToDate'],
    permitted_skips: SITE_SKIPS,
    roots_pem: machine.agent.root_pem,
    chain: { rpc_url: chain.url, program_id },
  }
  return parsePolicy(JSON.stringify(policy))
}

function serve(material: TlsMaterial, port: number, answers: Site['answers'], asked: string[]) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port,
    tls: { cert: material.cert_pem, key: material.key_pem },
    async fetch(request, server) {
      const { pathname, searchParams } = new URL(request.url)
      asked.push(pathname)
      if (server.upgrade(request)) return undefined
      const answer = answers.get(pathname)
      if (answer === undefined) return new Response('', { status: 404 })
      const body = await answer(searchParams.get('nonce') ?? undefined)
      return new Response(body, { headers: { 'access-control-allow-origin': '*' } })
    },
    websocket: {
      open: (socket) => void socket.send('hello'),
      message: () => {},
    },
  })
}

/** A demand that is undefined in `change` is left out. */
export function changedPolicy(policy: object, change: object): VerificationPolicy {
  return parsePolicy(JSON.stringify({ ...policy, ...change }))
}

/** @throws when the transaction fails. Visible to readers of confirmed state when it resolves. */
export async function landOn(
  chain: OpenedChain,
  payer: KeyPairSigner,
  instruction: Instruction,
): Promise<void> {
  const { value: lifetime } = await clientsOf(chain)
    .rpc.getLatestBlockhash({ commitment: 'processed' })
    .send()
  const { wire, signature } = await buildTransaction({
    payer,
    instructions: [instruction],
    lifetime,
    compute_units: 1_400_000,
    priority_fee_lamports: 0n,
  })
  chain.machine.enqueue(decodeTransaction(wire))
  chain.advance(3)
  const landed = chain.machine.store.transaction(encodeBase58(signature))
  if (landed?.error !== 'null') throw new Error(`did not land: ${landed?.error}`)
}

/** Undefined for a path that the service does not have. */
export function answerCollateral(collateral: Collateral, pathname: string): Response | undefined {
  const chain = (header: string, pem: string) => ({ headers: { [header]: encodeURIComponent(pem) } })
  switch (pathname) {
    case '/sgx/certification/v4/pckcrl':
      return new Response(
        new Uint8Array(fromHex(collateral.pck_crl, collateral.pck_crl.length / 2)!),
        chain('SGX-PCK-CRL-Issuer-Chain', collateral.pck_crl_issuer_chain),
      )
    case '/sgx/certification/v4/rootcacrl':
      return new Response(collateral.root_ca_crl)
    case '/tdx/certification/v4/tcb':
      return new Response(
        `{"tcbInfo":${collateral.tcb_info},"signature":"${collateral.tcb_info_signature}"}`,
        chain('TCB-Info-Issuer-Chain', collateral.tcb_info_issuer_chain),
      )
    case '/tdx/certification/v4/qe/identity':
      return new Response(
        `{"enclaveIdentity":${collateral.qe_identity},"signature":"${collateral.qe_identity_signature}"}`,
        chain('SGX-Enclave-Identity-Issuer-Chain', collateral.qe_identity_issuer_chain),
      )
  }
  return undefined
}
