/** `tacit verify`, `watch-venue`, `login`, `account`, `transparency` and `doctor`: a venue and a set-up as one may judge them. */

import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { accountIdOf } from '../../protocol/bodies/account'
import { fromHex } from '../../protocol/bytes'
import { deriveAccountKey } from '../../protocol/notes/derive'
import { publicKeyOf } from '../../protocol/sign'
import type { Info, Transparency } from '../../protocol/wire/public'
import type { Login, VenueClient } from '../api/venue_client'
import { readVaultState } from '../chain/read_vault'
import { CLOCK_APART_MAX_MS, WATCH_VENUE_S } from '../limits'
import { formatAmount } from '../session/units'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import { type EvidenceBundle, leadingOf, parseBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY } from '../verify/policy'
import { Refused, type Transcript, transcriptText, type Verdict } from '../verify/transcript'
import { joinVenue } from '../wallet/absorb'
import { newCredential, prepareRebind, revokeCredential } from '../wallet/account'
import { saveWallet } from '../wallet/wallet_file'
import { writeNew, writeWhole } from '../whole_file'
import { type Call, publicClient, readTokens, type Verb } from './call'
import { InputFault, readInputText, timeOf, UsageFault } from './command'
import { judge } from './failures'

const EXIT: Record<Verdict, number> = { verified: 0, partial: 0, failed: 1, incomplete: 2 }
type Judged = { transcript: Transcript; evidence: EvidenceBundle }

async function judgeVenue(call: Call): Promise<Judged> {
  try {
    return await call.venue()
  } catch (error) {
    if (error instanceof VerificationFailed) return error
    throw error
  }
}

async function judgeFile(call: Call, path: string): Promise<Judged> {
  const evidence = parseBundle(readInputText(path))
  return { transcript: await judgeEvidence(evidence, call.policy() ?? BARE_POLICY, 'recorded'), evidence }
}

async function verify(call: Call): Promise<number> {
  const [offline, bundle] = [call.optional('offline'), call.optional('bundle')]
  if (offline !== undefined && call.words.length > 0) throw new UsageFault()
  const { transcript, evidence } =
    offline === undefined ? await judgeVenue(call) : await judgeFile(call, offline)
  if (call.is_json) console.log(JSON.stringify(transcript, null, 2))
  else console.log(transcriptText(transcript))
  if (bundle !== undefined) writeWhole(bundle, `${JSON.stringify(evidence, null, 2)}\n`, 0o644)
  return EXIT[transcript.verdict]
}

/** Facts whose change a trader wants to know at once. */
async function standing(judged: Judged): Promise<Record<string, string>> {
  const { transcript, evidence } = judged
  const { info, spki_sha256 } = evidence
  const leading = leadingOf(evidence)
  const bad = transcript.checks.filter(({ result }) => result === 'fail')
  const shown = {
    verdict: transcript.verdict,
    failed: bad.map(({ name, reason }) => `${name}: ${reason}`).join('; ') || 'none',
    venue: info.venue,
    epoch: String(leading.info.epoch),
    settlement_key: leading.attestation.tee_pubkey,
    compose_hash: info.compose_hash,
    tls_key: String(spki_sha256),
  }
  if (!('fetch' in judged)) return shown
  const { reading, admin, mints, announced } = await publicClient(judged as VerifiedVenue).transparency()
  const short = mints.filter((one) => !one.stale && BigInt(one.vault_balance) < BigInt(one.outstanding))
  const later = admin.pending.map(
    ({ action, effective_unix_s, value }) => `${action} ${value} ${timeOf(effective_unix_s)}`,
  )
  const [admitted, pending, shortage] = [
    announced.map(admittedText).sort().join(', ') || 'none',
    later.join(', ') || 'none',
    short.map(({ mint }) => mint).join(', ') || 'none',
  ]
  const as_of = reading.stale ? `stale since slot ${reading.slot}: the rest may have changed` : 'current'
  return { ...shown, reading: as_of, admitted, pending, shortage }
}

/** The entries that an epoch may rest on now. */
const admittedText = ({ list, id, value }: Transparency['announced'][number]): string =>
  [list, id, value].filter((part) => part !== '').join(' ')

async function watchVenue(call: Call): Promise<number> {
  const every_s = Math.max(1, call.count('every', WATCH_VENUE_S, 6))
  let before: Record<string, string> | undefined
  for (;;) {
    const now = await judgeVenue(call)
      .then(standing)
      .catch((error: Error): Record<string, string> => {
        const failure = judge(error)
        if (failure?.code !== 3) throw error
        return { ...before, verdict: 'unavailable', failed: failure.message }
      })
    const at = timeOf(Math.floor(Date.now() / 1_000))
    const changes = Object.entries(now).filter(([name, value]) => before?.[name] !== value)
    for (const [name, value] of changes) {
      const from = before?.[name]
      const text =
        from === undefined ? `${at}  ${name} ${value}` : `changed  ${at}  ${name}: ${from} -> ${value}`
      call.print({ at, name, from: from ?? null, to: value }, () => [text])
    }
    const is_good = now['verdict'] === 'verified' || now['verdict'] === 'partial'
    if (call.flag('once')) return is_good ? 0 : 1
    if (before !== undefined && changes.length > 0 && call.flag('until-change')) return 1
    before = now
    await sleep(every_s * 1_000)
  }
}

async function logIn(call: Call): Promise<void> {
  const path = call.optional('out')
  if (path !== undefined && existsSync(path)) throw new InputFault(`${path} exists: name another`)
  const client = call.client(await call.venue())
  call.say('account', await client.login(), `${await client.login()}, as the login says`)
  if (path === undefined) return call.hint('the login works; --out FILE keeps its token, as for curl')
  writeWhole(path, `${await client.token()}\n`, 0o600)
  call.say('token', path, `${path}, which only you can read`)
}

async function showTransparency(call: Call): Promise<void> {
  const client = publicClient(await call.venue())
  const [shown, tokens] = [await client.transparency(), await readTokens(client)]
  const { reading, mints, tree, payout_queue, exits, settlement, admin, announced } = shown
  const { slot, age_ms, stale } = reading
  const age = `${Math.ceil(age_ms / 1_000)} s ago`
  call.print(shown, () => [
    `chain        slot ${slot}, read ${age}${stale ? ' and not since: all of it may have changed' : ''}`,
    ...mints.map(({ mint, decimals, vault_balance, outstanding, withdraw_fee, stale }) => {
      const amount = (units: string) => formatAmount(BigInt(units), decimals)
      const name = tokens.of(mint)?.name ?? mint
      const held = stale ? 'not known now' : `${amount(vault_balance)} held for ${amount(outstanding)} owed`
      return `${name.padEnd(12)} ${held}, withdrawal fee ${amount(withdraw_fee)}`
    }),
    `notes        ${tree.leaf_count} leaves, ${tree.spent_count} spent`,
    `payouts      ${payout_queue.length} wait`,
    `exits        ${exits.length} requests wait${exits[0] ? `, the nearest deadline ${timeOf(exits[0].deadline)}` : ''}`,
    `settlement   batch ${settlement.last_batch}, epoch ${settlement.epoch}, key ${settlement.signer}`,
    ...admin.pending.map(({ action, effective_unix_s, value }) => {
      return `announced    ${action} ${value} from ${timeOf(effective_unix_s)}`
    }),
    ...announced.map((one) => `admitted     ${admittedText(one)}`),
  ])
}

export const VENUE_VERBS: Readonly<Record<string, Verb>> = {
  verify: {
    form: '[URL] [--bundle OUT] [--offline BUNDLE]',
    reads: ['venue'],
    says: `checks quote, measurements, keys, connection and chain of a venue and prints each check: 0 accepted, 1 refused, 2 nothing
  failed but a skip is not permitted. --bundle keeps the evidence, --offline judges kept evidence again`,
    example: 'tacit verify --bundle evidence.json',
    run: verify,
  },
  'watch-venue': {
    form: '[URL] [--every SECONDS] [--once] [--until-change]',
    reads: ['venue'],
    says: `verifies a venue again and again and prints each change of verdict, keys, build, epoch, admitted and announced changes of the vault,
  shortage of a mint, and whether these are stale; --until-change ends with 1 at the first`,
    example: 'tacit watch-venue --once',
    run: watchVenue,
  },
  login: {
    form: '[URL] [--out FILE]',
    reads: ['venue', 'login'],
    says: 'verifies the venue, logs in, and shows the account; --out keeps the token',
    example: 'tacit login',
    run: logIn,
  },
  transparency: {
    form: '[URL]',
    reads: ['venue'],
    says: `shows the vault's balance and debt per token, payout queue, exits, settlement, announced changes, and the entries that epochs
  may rest on now: builds, images, machines, minima, keys; with slot and age of the reading`,
    example: 'tacit transparency',
    run: showTransparency,
  },
}

/** `tacit account`: the trader's own logins. Secrets are made here and go nowhere but into the trader's file. */

const MADE = '--seed-file FILE --out LOGIN [--kind trade|read] [--expires UNIX_S]'

export const ACCOUNT_VERBS: Readonly<Record<string, Verb>> = {
  'account request': {
    form: `[URL] ${MADE}`,
    reads: ['venue'],
    says: `makes a login in a private file, and prints the request for the operator: the account key of the seed and a signed
  credential, no secret`,
    example: 'tacit account request --seed-file seed.hex --out login.json',
    run: async (call) => show(await makeCredential(call, await call.venue())),
  },
  'account credential': {
    form: `[URL] ${MADE}`,
    reads: ['venue', 'login'],
    says: 'makes another login of the account, by the login that it has',
    example:
      'tacit account credential --seed-file seed.hex --login login.json --out dashboard.json --kind read',
    async run(call) {
      const [venue, client] = await loggedIn(call)
      show(await client.setCredential(await makeCredential(call, venue)))
    },
  },
  'account revoke': {
    form: '[URL] --seed-file FILE --credential ID',
    reads: ['venue', 'login'],
    says: 'revokes a credential of the account',
    example: 'tacit account revoke --seed-file seed.hex --login login.json --credential ID',
    async run(call) {
      const credential_id = call.text('credential')
      if (fromHex(credential_id, 16) === undefined) throw new UsageFault('--credential is 32 hex digits')
      const [venue, client] = await loggedIn(call)
      const revoked = { credential_id, version: Date.now() }
      show(await client.setCredential(revokeCredential(accountSeed(call), idOf(venue), revoked)))
    },
  },
  'account rebind': {
    form: '[URL] [--key K]',
    reads: ['venue', 'login', 'wallet'],
    says: 'moves a trading key of the wallet to the account of the login, after its seed was lost',
    example: 'tacit account rebind --wallet wallet.json --login login.json',
    async run(call) {
      const wallet = call.walletToChange()
      const [venue, client] = await loggedIn(call)
      const account_id = await client.login()
      const request = prepareRebind(wallet, idOf(venue), call.count('key', 0), account_id)
      saveWallet(call.text('wallet'), wallet)
      show(await client.rebind(request))
    },
  },
  'account show': {
    form: '[URL]',
    reads: ['venue', 'login'],
    says: 'lists credentials, limits, each act of the operator and each login',
    example: 'tacit account show',
    run: async (call) => show(await (await loggedIn(call))[1].account()),
  },
}

const show = (value: unknown): void => console.log(JSON.stringify(value, null, 2))
const idOf = ({ info }: VerifiedVenue): Uint8Array => fromHex(info.venue, 32)!
async function loggedIn(call: Call): Promise<[VerifiedVenue, VenueClient]> {
  const venue = await call.venue()
  return [venue, call.client(venue)]
}

/** Writes the new login before its body leaves this command. */
async function makeCredential(call: Call, venue: VerifiedVenue) {
  const kind = call.text('kind', 'trade')
  if (kind !== 'trade' && kind !== 'read') throw new UsageFault('--kind is trade or read')
  const terms = { kind, version: Date.now(), expiry_s: call.count('expires', 0, 12) } as const
  const path = call.text('out')
  if (existsSync(path)) throw new Refused(`${path} exists: a login is never overwritten`)
  const { login, request } = await newCredential(accountSeed(call), idOf(venue), terms)
  writeNew(path, `${JSON.stringify(login, null, 2)}\n`, 0o600)
  return request
}

function accountSeed(call: Call): Uint8Array {
  return deriveAccountKey(call.seed('seed-file'))
}

type Finding = { part: string; result: 'ok' | 'fault' | 'skipped'; text: string }

class Examination {
  readonly findings: Finding[] = []
  /** @returns the findings; undefined after a fault, and checks that need them are skipped */
  async look<T>(part: string, find: () => Promise<[T, string]> | [T, string]): Promise<T | undefined> {
    try {
      const [found, text] = await find()
      this.findings.push({ part, result: 'ok', text })
      return found
    } catch (error) {
      if (!(error instanceof Error)) throw error
      this.findings.push({ part, result: 'fault', text: judge(error)?.message ?? error.message })
      return undefined
    }
  }
  skip(...parts: string[]): void {
    for (const part of parts)
      this.findings.push({ part, result: 'skipped', text: 'needs what is at fault above, or is not set' })
  }
}

type Examined = { login?: Login | undefined; info?: Info }
async function examineVenue(call: Call, seen: Examination): Promise<Examined> {
  const policy = await seen.look('policy', () => {
    const found = call.policy()
    if (found === undefined)
      throw new InputFault('--policy is needed: the file that says which venue you accept')
    return [found, String(call.optional('policy'))]
  })
  const venue =
    policy && (await seen.look('venue', async () => [await call.venue(), `${call.urls()}: verified`]))
  if (venue === undefined) {
    seen.skip('clock', 'login', 'account')
    return {}
  }
  await seen.look('clock', async () => {
    const apart = Math.abs((await publicClient(venue).time()).unix_ms - Date.now())
    if (apart > CLOCK_APART_MAX_MS)
      throw new InputFault(`this machine's clock is ${Math.round(apart / 1_000)} s from the venue's: set it`)
    return [apart, 'as the venue']
  })
  const login = await seen.look('login', () => [call.login(), String(call.optional('login'))])
  if (login === undefined) seen.skip('account')
  else
    await seen.look('account', async () => {
      const view = await call.client(venue).account()
      if (view.state !== 'active') throw new InputFault(`the operator has it ${view.state}: ask the operator`)
      return [view, `${view.account_id}: active`]
    })
  return { login, info: venue.info }
}

async function examineChain(call: Call, seen: Examination): Promise<void> {
  const chain = await seen.look('node', async () => {
    const reader = call.reader()
    return [reader, `${reader.rpc_url}: slot ${await reader.rpc.getSlot().send()}`]
  })
  if (chain === undefined) return seen.skip('vault', 'payer')
  await seen.look('vault', async () => {
    const { config } = await readVaultState(chain, call.program())
    if (config.frozen) throw new InputFault("it is frozen: 'tacit exit claim' claims your notes")
    return [config, `${call.program()}: epoch ${config.epoch}${config.paused ? ', paused' : ''}`]
  })
  if (call.optional('payer') === undefined) return seen.skip('payer')
  await seen.look('payer', async () => {
    const { rpc, payer } = await call.chain()
    const { value } = await rpc.getBalance(payer.address).send()
    if (value === 0n)
      throw new InputFault(
        `${payer.address} has no SOL: it cannot pay fees; 'tacit faucet' gives some on the sandbox`,
      )
    return [value, `${payer.address}: ${value} lamports`]
  })
}

async function doctor(call: Call): Promise<number> {
  const seen = new Examination()
  await seen.look('settings', () => [
    call.urls().join(),
    existsSync('tacit.json') ? 'tacit.json' : 'without tacit.json',
  ])
  const { login, info } = await examineVenue(call, seen)
  await seen.look('wallet', () => {
    const wallet = call.walletToChange()
    const { seed, state } = wallet
    if (info !== undefined) joinVenue(wallet, info)
    const own = accountIdOf(publicKeyOf(deriveAccountKey(seed)))
    if (login !== undefined && login.account_id !== (call.accountOf(login) ?? own))
      throw new InputFault(
        'the login is of another account than the one of its seed: make one from this seed',
      )
    const free = state.notes.filter((note) => note.state === 'free').length
    const open = state.requests?.length ?? 0
    if (open > 0) throw new InputFault(`${open} requests have no outcome yet: 'tacit settle'`)
    return [state, `${call.text('wallet')}: ${free} free notes`]
  })
  await examineChain(call, seen)
  call.list(
    'findings',
    seen.findings,
    ({ part, result, text }) => `${result.padEnd(8)} ${part.padEnd(9)} ${text}`,
  )
  return seen.findings.some(({ result }) => result === 'fault') ? 1 : 0
}

export const DOCTOR: Verb = {
  form: '',
  reads: ['venue', 'login', 'wallet', 'chain', 'payer'],
  says: 'checks settings, policy, venue, clock, login, account, wallet, node, vault and payer in this order, and names each fault',
  example: 'tacit doctor',
  run: doctor,
}
