/** Renders a transcript: the verdict, then every check with expected and found values. */
import type { EvidenceBundle } from '../verify/evidence_bundle'
import { isPermitted } from '../verify/judge_evidence'
import type { SkipReason, VerificationPolicy } from '../verify/policy'
import type { Check, CheckName, CheckResult, Transcript, Verdict } from '../verify/transcript'
import { element } from './element'

const ASK = 'Send nothing. Ask the operator, and another user, whether they see the same.'
const POLICY = 'Send nothing. Change your policy only after you judged the new value by yourself.'
const AGAIN = 'Try again: a fresh answer has fresh values. If it stays, send nothing.'

const HELP: Readonly<Record<CheckName, readonly [meaning: string, remedy: string]>> = {
  collateral: ['What Intel says about its keys is missing, out of date or forged.', AGAIN],
  quote: ['No genuine TDX machine made this quote.', ASK],
  platform: [
    'Firmware or TDX module lack updates that your policy asks for; known attacks may work.',
    'Wait until the operator has updated the machine, or permit the advisory that you have read.',
  ],
  machine: ['The host can look into the machine, or move it elsewhere.', ASK],
  xfam: ['The machine uses a processor feature that your policy does not know.', POLICY],
  enclave: ['The venue calls itself hardware and shows a simulator, or the reverse.', ASK],
  registers: ['The log of what was started is not the one that was measured.', ASK],
  claims: ['Something more was measured than one app, or the venue names another.', ASK],
  mr_config_id: ['The manifest may have been exchanged after the machine had started.', ASK],
  app: ['It is another app than the one that you pinned.', POLICY],
  key_provider: ['Another service hands out the keys; who runs it could know them.', POLICY],
  compose_hash: [
    'The machine runs another build than the one that you pinned: an upgrade, or something else.',
    'Send nothing. Read what the operator published, reproduce the image, and pin the new hash only then.',
  ],
  manifest: [
    'The shown settings are not the measured ones, or leave room for code that nobody measured.',
    ASK,
  ],
  rpc_operators: ['Too few of the operators that you trust tell the venue what is on chain.', POLICY],
  os_image: ['The operating system below the venue is not one that you pinned.', POLICY],
  report_data: ['The quote was made for another question or another key: it may be old.', AGAIN],
  binding: ['The machine did not sign this epoch, venue and question.', AGAIN],
  tls_key: [
    'Somebody else ends your connection, and can read and change it.',
    'Send nothing, and change the network.',
  ],
  evidence: ['The files that accompany the certificate are of another machine or key.', AGAIN],
  settlement_signer: [
    'The vault does not pay on this key: another instance has replaced the one that answers.',
    'Wait a minute and verify again; a venue that just started opens its epoch first.',
  ],
  following: [
    'The node does not follow the venue of this vault, or does not show the node that leads.',
    'Ask another node of the venue, or wait a minute and verify again.',
  ],
  vault_state: [
    'The vault is paused or frozen, or its administrator has announced a change.',
    'Read the announcement on the market page. If you do not agree, withdraw or exit before it takes effect.',
  ],
  program: ['The code that holds the money is another one, or can be exchanged without notice.', ASK],
  kms: ['The contract over the keys does not permit this build.', ASK],
  kms_owner: ['Someone whom you did not pin can permit other builds, or faster than you asked for.', POLICY],
  exit_delay: ['A change could take effect before you can leave.', POLICY],
  admin: ['Someone whom you did not pin can announce changes of the vault.', POLICY],
  announced: [
    'The vault no longer admits this machine or build, or admits another one that you do not know, now or later.',
    'Read what is announced on the market page. If you do not agree, withdraw or exit before it takes effect.',
  ],
  machine_list: ['It is another physical machine than those of your list.', POLICY],
  location: ['No authority of your policy says where the machine is, or it says another place.', POLICY],
}

/** One line each; a line is a value or a short phrase. */
function expectedOf(name: CheckName, policy: VerificationPolicy, bundle: EvidenceBundle): string[] {
  return EXPECTED[name](policy, bundle)
}

type Expected = (policy: VerificationPolicy, bundle: EvidenceBundle) => string[]
const NOT_NAMED = 'your policy names none'

const EXPECTED: Record<CheckName, Expected> = {
  collateral: (policy) => [
    policy.roots_pem === undefined
      ? 'signed under Intel SGX Root CA'
      : 'signed under the root of your policy',
    'not expired, nothing revoked',
  ],
  quote: () => ['a valid chain, quoting enclave and signature'],
  platform: (policy) => [
    `status ${policy.tcb_statuses.join(' or ') || 'none allowed'}`,
    `advisories ${policy.advisories.join(' ') || 'none'}`,
    `evaluation number from ${policy.tcb_evaluation_min ?? 0}`,
  ],
  machine: () => ['debug off, not migratable, no service TD'],
  xfam: ({ xfam_mask }) => [xfam_mask === undefined ? NOT_NAMED : `no bit outside ${xfam_mask}`],
  enclave: ({ roots_pem }) => [
    roots_pem === undefined ? 'hardware' : 'simulated, as your policy names its root',
  ],
  registers: () => ['the log replays to RTMR0 to RTMR3'],
  claims: (_policy, { info }) => [
    stated('app_id', info.app_id),
    stated('instance_id', info.instance_id),
    'each exactly once',
  ],
  mr_config_id: () => ['a commitment to the measured manifest'],
  app: ({ app_ids }) => listed(app_ids),
  key_provider: ({ key_providers }) => listed(key_providers?.map(({ name, id }) => `${name} ${id}`)),
  compose_hash: ({ compose_hashes }) => listed(compose_hashes),
  manifest: (_policy, { info }) => [
    stated('hash', info.compose_hash),
    'images by digest, no shell, no script, listed names only',
  ],
  rpc_operators: ({ rpc_operators }) =>
    rpc_operators === undefined
      ? [NOT_NAMED]
      : [
          `at least ${rpc_operators.minimum} of ${rpc_operators.operators.map(({ name }) => name).join(', ')}`,
        ],
  os_image: (policy) =>
    listed([
      ...(policy.os_image_hashes ?? []),
      ...(policy.registers ?? []).map(({ mrtd }) => `mrtd ${mrtd}`),
    ]),
  report_data: (_policy, { nonce, info }) => [`nonce ${nonce}`, stated('key', info.tee_pubkey)],
  binding: (_policy, { info, nonce }) => [
    stated('venue', info.venue),
    stated('epoch', String(info.epoch)),
    `nonce ${nonce}`,
  ],
  tls_key: () => ['the key of this connection'],
  evidence: () => ['the same machine, the same TLS key'],
  settlement_signer: (policy, { info }) =>
    policy.chain === undefined
      ? [NOT_NAMED]
      : [
          `program ${policy.chain.program_id}`,
          stated('signer', info.tee_pubkey),
          stated('epoch', String(info.epoch)),
        ],
  following: (policy, { info }) => [
    'epoch 0',
    stated('venue', info.venue),
    policy.chain?.program_id ?? NOT_NAMED,
  ],
  vault_state: ({ chain }) =>
    chain === undefined
      ? [NOT_NAMED]
      : [
          chain.paused_allowed ? 'open or paused' : 'open, not paused',
          `announced changes: ${chain.pending_actions.join(' ') || 'none'}`,
        ],
  program: ({ chain }) =>
    chain === undefined
      ? [NOT_NAMED]
      : [
          chain.program_sha256 ?? 'any program at the pinned address',
          `upgrade authority ${chain.upgrade_authorities.join(' ') || 'none'}`,
        ],
  kms: ({ kms }) => [kms === undefined ? NOT_NAMED : 'the contract allows the measured build'],
  kms_owner: ({ kms }) => [
    ...listed(kms?.owners),
    ...(kms?.timelock_min_s === undefined ? [] : [`a timelock of at least ${kms.timelock_min_s} s`]),
  ],
  exit_delay: ({ chain }) => [
    chain?.exit_delay_min_s === undefined ? NOT_NAMED : `at least ${chain.exit_delay_min_s} s`,
  ],
  admin: ({ chain }) => listed(chain?.admins),
  announced: ({ chain, compose_hashes = [], ppids = [] }) =>
    chain === undefined
      ? [NOT_NAMED]
      : ['this machine, image and build', ...compose_hashes, ...ppids, ...(chain.epoch_authorities ?? [])],
  machine_list: ({ ppids }) => listed(ppids),
  location: ({ location }) =>
    location === undefined
      ? [NOT_NAMED]
      : [`at least ${location.minimum} of ${location.authorities.map(({ name }) => name).join(', ')}`],
}

/** The venue's own statement, which the check compares with its proof. */
const stated = (name: string, value: string): string => `stated ${name} ${value}`
const listed = (values: readonly string[] = []): string[] => (values.length === 0 ? [NOT_NAMED] : [...values])

/** Hex and base58 values of 20 bytes and more. */
const LONG_VALUE = /[0-9A-Za-z]{32,}/g
const ENDS = 8

/** Text as nodes, never as markup. Long values are shortened, in full on hover, with a button to copy them. */
function showValue(text: string): (Node | string)[] {
  const nodes: (Node | string)[] = []
  let at = 0
  for (const match of text.matchAll(LONG_VALUE)) {
    nodes.push(text.slice(at, match.index), showLong(match[0]))
    at = match.index + match[0].length
  }
  return [...nodes, text.slice(at)]
}

function showLong(value: string): Node {
  const short = element('code', '', `${value.slice(0, ENDS)}…${value.slice(-ENDS)}`)
  short.title = value
  const copy = element('button', 'copy', 'copy')
  copy.type = 'button'
  copy.setAttribute('aria-label', `copy ${value.slice(0, ENDS)} in full`)
  copy.addEventListener('click', () => void copyText(copy, value))
  return element('span', 'long', short, copy)
}

async function copyText(button: HTMLButtonElement, value: string): Promise<void> {
  const word = await navigator.clipboard.writeText(value).then(
    () => 'copied',
    () => 'refused',
  )
  button.textContent = word
  setTimeout(() => {
    button.textContent = 'copy'
  }, 1500)
}

/** Titles of the steps, by the first digit of a check's number. */
const STEPS = [
  'Hardware: the quote is genuine and current',
  'Measurement: what the machine started',
  'Manifest: the measured build is yours',
  'Operating system',
  'This answer: nonce, keys, connection',
  'Chain: the vault knows this machine, and who can change that',
  'Place: which machine it is and where',
]
/** Signs, so that colour is never the only signal. */
const MARKS: Record<CheckResult, string> = { pass: '✓ pass', fail: '✕ fail', skipped: '– skip' }
const VERDICTS: Record<Verdict, [mark: string, title: string, meaning: string]> = {
  verified: ['✓', 'Verified', 'Every check passed for the measured build.'],
  partial: [
    '✓',
    'Accepted, not complete',
    'Nothing failed, and your policy permits the reason of each skip.',
  ],
  incomplete: [
    '–',
    'Incomplete',
    'Nothing failed, but your policy does not permit the reason of every skip.',
  ],
  failed: ['✕', 'Refused', 'At least one check failed. Send this venue nothing.'],
}

type Shown = {
  transcript: Transcript
  policy: VerificationPolicy
  bundle: EvidenceBundle
  command: string
}

export function showTranscript(shown: Shown): Node[] {
  const table = showTable(shown)
  return [showVerdict(shown.transcript, shown.policy.permitted_skips), showMore(table), table]
}

function showVerdict(transcript: Transcript, permitted: readonly SkipReason[]): Node {
  const { verdict, checks, url, judged_at, intel_root } = transcript
  const [mark, title, meaning] = VERDICTS[verdict]
  const count = (result: CheckResult) => checks.filter((check) => check.result === result).length
  const box = element(
    'div',
    `verdict ${verdict}`,
    element('h2', '', `${mark} ${title}`),
    element('p', '', meaning),
    element('p', 'counts', `${count('pass')} passed, ${count('fail')} failed, ${count('skipped')} skipped`),
    element('p', 'subject', `${url}, judged at ${judged_at}`),
  )
  const blocking = checks.filter((check) => check.result === 'skipped' && !isPermitted(check, permitted))
  if (verdict === 'incomplete')
    box.append(element('p', 'blocking', `Not permitted: ${blocking.map(blockingName).join(', ')}`))
  if (!intel_root)
    box.append(
      element(
        'p',
        'warning',
        "! Not production: your policy replaced Intel's root, so no hardware is proven.",
      ),
    )
  box.tabIndex = -1
  box.dataset['verdict'] = verdict
  return box
}

/** On a narrow screen a check that passed is one line until its values are asked for. */
function showMore(table: HTMLElement): Node {
  const more = element('button', 'more', 'Show the values of passed checks')
  more.type = 'button'
  more.setAttribute('aria-expanded', 'false')
  more.addEventListener('click', () => {
    const is_whole = table.classList.toggle('whole')
    more.setAttribute('aria-expanded', String(is_whole))
    more.textContent = `${is_whole ? 'Hide' : 'Show'} the values of passed checks`
  })
  return more
}

/** With the code that a policy lists to permit the skip. */
const blockingName = ({ number, name, reason_code }: Check): string =>
  reason_code === '' ? `${number} ${name}` : `${number} ${name} (${reason_code})`

function showTable(shown: Shown): HTMLElement {
  const heads = ['Check', 'Result', 'Expected', 'Found'].map((title) => {
    const head = element('th', '', title)
    head.scope = 'col'
    return head
  })
  const table = element(
    'table',
    '',
    element('caption', '', `${shown.transcript.checks.length} checks in ${STEPS.length} steps`),
  )
  table.append(element('thead', '', element('tr', '', ...heads)))
  for (const [index, title] of STEPS.entries()) {
    const step = String(index + 1)
    const head = element('th', '', `${step}  ${title}`)
    head.scope = 'rowgroup'
    head.colSpan = heads.length
    const rows = shown.transcript.checks.filter(({ number }) => number.startsWith(`${step}.`))
    table.append(
      element('tbody', '', element('tr', 'step', head), ...rows.map((check) => showCheck(check, shown))),
    )
  }
  return table
}

function showCheck(check: Check, { policy, bundle, command }: Shown): Node {
  const of = check.leading ? { ...bundle, ...bundle.leader } : bundle
  const expected = expectedOf(check.name, policy, of)
  const found = Object.entries(check.values).map(([name, value]) => `${name} ${value || '–'}`)
  if (check.reason !== '') found.push(check.reason)
  const found_cell = cell('Found', ...found.map(showLine))
  if (check.name === 'tls_key' && check.result === 'skipped')
    found_cell.append(element('div', '', 'Run this, which sees it:'), element('pre', '', command))
  if (check.result === 'fail') {
    const [meaning, remedy] = HELP[check.name]
    found_cell.append(
      element('p', 'fault', `What it means: ${meaning}`),
      element('p', 'remedy', `What to do: ${remedy}`),
    )
  }
  const name = element(
    'th',
    '',
    element('span', 'number', check.number),
    ` ${check.leading ? 'leading node: ' : ''}${check.statement}`,
  )
  name.scope = 'row'
  const row = element(
    'tr',
    check.result,
    name,
    cell('Result', element('span', 'result', MARKS[check.result])),
    cell('Expected', ...expected.map(showLine)),
    found_cell,
  )
  row.dataset['check'] = check.name
  row.dataset['result'] = check.result
  return row
}

const showLine = (text: string): Node => element('div', '', ...showValue(text))

/** On a narrow screen the heads are hidden and each cell shows its label. */
function cell(label: string, ...children: Node[]): HTMLTableCellElement {
  const made = element('td', '', ...children)
  made.dataset['label'] = label
  return made
}
