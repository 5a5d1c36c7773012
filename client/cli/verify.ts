/** `tacit verify`, `watch-venue`, `login` and `transparency`: a venue as anyone, or its trader, may judge it. */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Transparency } from '../../protocol/wire/public'
import { WATCH_VENUE_S } from '../limits'
import { formatAmount } from '../session/units'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import { type EvidenceBundle, leadingOf, parseBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY } from '../verify/policy'
import { type Transcript, transcriptText, type Verdict } from '../verify/transcript'
import { writeWhole } from '../whole_file'
import type { Call, Verb } from './call'
import { InputFault, readInputText, timeOf, UsageFault } from './command'
import { judge } from './failures'
import { publicClient, readTokens } from './tables'

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

/** What a trader wants to know at once when it changes. */
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

/** What an epoch may rest on now. */
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
    says: `shows what the vault holds and owes per token, payout queue, exits, settlement, announced changes, and what epochs may rest
  on now: builds, images, machines, minima, keys; with slot and age of the reading`,
    example: 'tacit transparency',
    run: showTransparency,
  },
}
