/** The verification page: reads the form, asks the venue, judges in this browser, shows the transcript. */

import { collectEvidence } from '../verify/collect/collect_evidence'
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { fetchTransport } from '../verify/collect/fetch_transport'
import type { EvidenceBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { reasonOf } from '../verify/refused'
import { type Demand, type FormText, readDemand } from './read_demand'
import { showTranscript } from './show_transcript'
import { takeFiles } from './take_files'

const byId = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E
const form = byId<HTMLFormElement>('demand')
const status = byId('status')
const result = byId('result')
const verify = byId<HTMLButtonElement>('verify')
const save = byId<HTMLButtonElement>('save')
let evidence: EvidenceBundle | undefined
/** Counts questions: a run whose form has changed meanwhile has nothing to show. */
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

/** @returns what shows the result. */
async function judge({ origin, policy, options }: Demand): Promise<() => void> {
  // A browser shows no page the TLS key of its connection, so that check has nothing to judge.
  const bundle = await collectEvidence(fetchTransport(origin), null, policy, options)
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

/** The result of an earlier run never stands beside a newer question. */
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

/** A page is not told why a connection failed. */
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
