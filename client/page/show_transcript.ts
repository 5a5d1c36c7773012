/** Renders a transcript: the verdict, then every check with expected and found values. */
import type { EvidenceBundle } from '../verify/evidence_bundle'
import { isPermitted } from '../verify/judge_evidence'
import type { VerificationPolicy } from '../verify/policy'
import type { SkipReason } from '../verify/skip_reasons'
import { CHECKS, type Check, type CheckResult, type Transcript, type Verdict } from '../verify/transcript'
import { HELP } from './check_help'
import { element } from './element'
import { expectedOf } from './expected'

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
    element('caption', '', `${CHECKS.length} checks in ${STEPS.length} steps`),
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
  const expected = expectedOf(check.name, policy, bundle)
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
  const name = element('th', '', element('span', 'number', check.number), ` ${check.statement}`)
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
