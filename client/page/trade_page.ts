/** Runs the trade page: judges the venue, opens the wallet, gets the account admitted, and hands over to the desk. */

import { fromHex } from '../../protocol/bytes'
import { deriveAccountKey } from '../../protocol/notes/derive'
import type { SessionVenue } from '../session/live_venue'
import { Session } from '../session/session'
import { VerificationFailed } from '../verified_venue'
import { collectEvidence } from '../verify/collect/collect_evidence'
import { leadingOf } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { parsePolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral'
import { isAccepted, type Transcript } from '../verify/transcript'
import { newCredential } from '../wallet/account'
import { BrowserStore, restoreBackup } from './browser_store'
import { byId, messageOf, say } from './element'
import { ADMIT_PATH, openGateway, pageDefaults } from './gateway'
import { Desk } from './trade_desk'

const defaults = pageDefaults() ?? {
  url: location.origin,
  vault: '',
  policy: '{}',
  collateral: '',
  rpc_url: '',
  is_laptop: false,
}
/** Storage key of the wallet: one per vault, because its notes exist in that vault alone, and the venue's address may change. */
const name = `tacit wallet ${defaults.vault}`
const status = byId('status')
const enter = byId<HTMLButtonElement>('enter')
const policy_field = byId<HTMLTextAreaElement>('policy')
const passphrase_field = byId<HTMLInputElement>('passphrase')

type Judged = SessionVenue & { transcript: Transcript }

/** @throws VerificationFailed, EvidenceUnavailable, Refused */
async function openVenue(policy_text: string): Promise<Judged> {
  const policy = parsePolicy(policy_text)
  const { collateral } = defaults
  const venue = await openGateway(defaults.url)
  const options = collateral === '' ? {} : { collateral: parseCollateral(collateral) }
  const evidence = await collectEvidence(venue, venue.spki_sha256, policy, options)
  const transcript = await judgeEvidence(evidence, policy, 'live')
  if (!isAccepted(transcript)) throw new VerificationFailed(transcript, evidence)
  const { info, attestation } = leadingOf(evidence)
  return { ...venue, info, attestation, transcript, evidence }
}

/** The store with a login; the operator of a laptop admits it at once. @throws Error when it is not admitted */
async function withAccount(store: BrowserStore, venue: Judged): Promise<void> {
  // With an operator elsewhere, the login decides: it works once the account is admitted.
  if (store.is_admitted || (store.login !== undefined && !defaults.is_laptop)) return
  const account_seed = deriveAccountKey(store.wallet.seed)
  const terms = { kind: 'trade', version: Date.now(), expiry_s: 0 } as const
  const { login, request } = await newCredential(account_seed, fromHex(venue.info.venue, 32)!, terms)
  store.login = login
  store.save()
  if (!defaults.is_laptop)
    throw new Error(`send this to the operator, who admits the account: ${JSON.stringify(request)}`)
  const answer = await fetch(ADMIT_PATH, { method: 'POST', body: JSON.stringify(request) })
  if (!answer.ok) throw new Error('the venue did not admit the account')
  store.is_admitted = true
  store.save()
}

async function open(): Promise<void> {
  const policy = policy_field.value
  say(status, 'Judging the venue …')
  let venue: Judged | undefined = await openVenue(policy)
  say(status, 'Opening the wallet …')
  const passphrase = passphrase_field.value
  const kept = BrowserStore.has(name)
  const store = await (kept ? BrowserStore.open(name, passphrase) : BrowserStore.create(name, passphrase))
  passphrase_field.value = ''
  await withAccount(store, venue)
  const { transcript } = venue
  const desk = new Desk(store, defaults, venue.info.program_id)
  const session = await Session.open({
    url: defaults.url,
    policy: parsePolicy(policy),
    login: store.login!,
    wallet: store,
    // The first connection is the one just judged; a later one is judged again.
    async open_venue() {
      const first = venue
      venue = undefined
      return first ?? openVenue(policy)
    },
    event: (event) => desk.take(event),
    connection: (connected) => desk.connection(connected),
    ended: (reason) => desk.ended(reason),
  })
  const count = (kind: string) => transcript.checks.filter(({ result }) => result === kind).length
  const verdict = `✓ ${defaults.url}: ${count('pass')} of ${transcript.checks.length} checks passed, ${count('skipped')} skipped as the policy permits, none failed.`
  await desk.open(session, verdict).catch((error: unknown) => {
    // The next attempt opens another session, and two of them would use a blinding twice.
    session.close()
    throw error
  })
  byId('unlock').hidden = true
  say(status, '')
}

function describe(): void {
  const kept = BrowserStore.has(name)
  enter.textContent = kept ? 'Open wallet' : 'Create wallet'
  byId('passphrase-help').textContent = kept
    ? `It opens the wallet that this browser keeps for this venue at ${location.host}.`
    : `A new wallet is sealed with it, at least 8 characters, and kept in this browser for ${location.host} alone. Without it the wallet cannot be opened.`
}

byId('unlock').addEventListener('submit', (event) => {
  event.preventDefault()
  enter.disabled = true
  open()
    .catch((error: unknown) => say(status, messageOf(error), true))
    .finally(() => {
      enter.disabled = false
      describe()
    })
})
byId<HTMLInputElement>('backup').addEventListener('change', (event) => {
  const file = (event.target as HTMLInputElement).files?.[0]
  file
    ?.text()
    .then((text) => restoreBackup(name, text))
    .then(
      () => say(status, 'The backup is in place: open it with its passphrase.'),
      (error: Error) => say(status, error.message, true),
    )
    .finally(describe)
})
policy_field.value = defaults.policy
describe()
