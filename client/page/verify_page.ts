/** Runs the verification page: reads the form, asks the venue, judges in this browser, shows the transcript. */
import type { Collateral } from '../../protocol/tdx/collateral'
import { collectEvidence, EvidenceUnavailable, fetchTransport } from '../verify/collect/collect_evidence'
import type { EvidenceBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY, parsePolicy, type VerificationPolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral'
import { Refused, reasonOf } from '../verify/transcript'
import { byId } from './element'
import { openGateway, pageDefaults } from './gateway'
import { showTranscript } from './show_transcript'

/** Fills a text field from a file, chosen with its button or dropped on it. @param changed called after each fill */
function takeFiles(field: HTMLTextAreaElement, changed: () => void): void {
  const chooser = document.querySelector<HTMLInputElement>(`input[type=file][data-for="${field.id}"]`)!
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return
    field.value = await file.text()
    changed()
  }
  chooser.addEventListener('change', () => void take(chooser.files?.[0]))
  field.addEventListener('dragover', (event) => event.preventDefault())
  field.addEventListener('drop', (event) => {
    const file = event.dataTransfer?.files[0]
    if (file === undefined) return
    event.preventDefault()
    void take(file)
  })
}

/** Exact text of each field, as typed, pasted or dropped. */
type FormText = { url: string; policy: string; collateral: string; manifest: string }
type Demand = {
  origin: URL
  policy: VerificationPolicy
  options: { collateral?: Collateral; app_compose?: string }
}

/** @throws Refused naming the field. An empty policy demands real, current hardware and pins nothing else. */
function readDemand(text: FormText): Demand {
  const { collateral, manifest } = text
  return {
    origin: readOrigin(text.url.trim()),
    policy: isEmpty(text.policy) ? BARE_POLICY : parsePolicy(text.policy),
    options: {
      ...(isEmpty(collateral) ? {} : { collateral: parseCollateral(collateral) }),
      // The hash is over the exact bytes, so nothing is trimmed.
      ...(isEmpty(manifest) ? {} : { app_compose: manifest }),
    },
  }
}

const isEmpty = (text: string): boolean => text.trim() === ''

function readOrigin(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:') throw new Refused('the venue is named by a URL that begins with https://')
  return url
}

const defaults = pageDefaults()
const form = byId<HTMLFormElement>('demand')
const status = byId('status')
const result = byId('result')
const verify = byId<HTMLButtonElement>('verify')
const save = byId<HTMLButtonElement>('save')
let evidence: EvidenceBundle | undefined
/** Counts questions: a run is discarded when the form has changed meanwhile. */
let question = 0

function formText(): FormText {
  const value = (id: keyof FormText) => byId<HTMLInputElement | HTMLTextAreaElement>(id).value
  return {
    url: value('url'),
    policy: value('policy'),
    collateral: value('collateral'),
    manifest: value('manifest'),
  }
}

async function run(): Promise<void> {
  forget()
  const asked = question
  verify.disabled = true
  say('Asking the venue with a fresh nonce …')
  try {
    const show = await judge(readDemand(formText()))
    if (asked === question) show()
  } catch (error) {
    if (asked === question)
      say(`No verdict: ${error instanceof EvidenceUnavailable ? unavailable(error) : reasonOf(error)}.`, true)
  } finally {
    verify.disabled = false
  }
}

/** @returns a function that shows the result. */
async function judge({ origin, policy, options }: Demand): Promise<() => void> {
  const bundle = await collect(origin, policy, options)
  const transcript = await judgeEvidence(bundle, policy, 'live')
  const command = `bun run tacit verify ${origin.origin} --policy policy.json`
  return () => {
    evidence = bundle
    result.replaceChildren(...showTranscript({ transcript, policy, bundle, command }))
    save.hidden = false
    say('')
    result.querySelector<HTMLElement>('.verdict')?.focus()
  }
}

/** A browser hides the TLS key of a connection from a page; the server of a served page opens it and names its key. */
async function collect(
  origin: URL,
  policy: VerificationPolicy,
  options: Demand['options'],
): Promise<EvidenceBundle> {
  if (origin.origin !== defaults?.url) return collectEvidence(fetchTransport(origin), null, policy, options)
  const venue = await openGateway(origin.origin).catch((error: unknown) => {
    throw new EvidenceUnavailable('the venue did not open TLS', { cause: error })
  })
  return collectEvidence(venue, venue.spki_sha256, policy, options)
}

/** Clears the result: it never appears with a newer question. */
function forget(): void {
  question++
  evidence = undefined
  save.hidden = true
  result.replaceChildren()
  say('')
}

function say(text: string, is_fault = false): void {
  status.textContent = text
  status.className = is_fault ? 'fault' : ''
}

/** A browser hides the reason of a failed connection from a page. */
function unavailable(error: EvidenceUnavailable): string {
  return `${error.message}. The browser may not reach the venue, or may not trust its certificate`
}

function saveBundle(): void {
  if (evidence === undefined) return
  const file = new Blob([`${JSON.stringify(evidence, null, 2)}\n`], { type: 'application/json' })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = 'evidence.json'
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 0)
}

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void run()
})
form.addEventListener('input', forget)
save.addEventListener('click', saveBundle)
for (const field of form.querySelectorAll('textarea')) takeFiles(field, forget)
if (defaults !== undefined) {
  byId<HTMLInputElement>('url').value = defaults.url
  byId<HTMLTextAreaElement>('policy').value = defaults.policy
  byId<HTMLTextAreaElement>('collateral').value = defaults.collateral
  document.querySelector('nav')!.hidden = false
}
