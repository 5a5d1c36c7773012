/**
 * `bun run read-machine URL --compose-hash HEX [--collateral FILE] [--policy FILE]`: prints the announcements that the admin
 * makes for a machine that opened no epoch yet. Printed only when the quote is genuine, current, over a fresh nonce and the
 * epoch authority, and of a machine that runs the manifest. Exit code: 0 proven, 1 rejected, 64 usage.
 */
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { VENUE_ANSWER_BYTES_MAX } from '../../client/limits'
import { checkAppId, checkKeyProvider } from '../../client/verify/checks/chain'
import { checkMrConfigId, checkOsImage, checkXfam } from '../../client/verify/checks/quote'
import {
  type CheckValues,
  type RunCheck,
  Skipped,
  type VerificationCase,
} from '../../client/verify/checks/verification_case'
import { collectCollateral, INTEL_PCS } from '../../client/verify/collect/collect_collateral'
import { parseJson } from '../../client/verify/json_document'
import { BARE_POLICY, parsePolicy, type VerificationPolicy } from '../../client/verify/policy'
import { openCollateral, parseCollateral, trustedRoots } from '../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../client/verify/tdx/genuine_quote'
import { Refused, requireThat } from '../../client/verify/transcript'
import { type AskInit, askBounded } from '../../protocol/ask_bounded'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, fromAnyHex, fromHex, toHex } from '../../protocol/bytes'
import type { Collateral } from '../../protocol/tdx/collateral'
import { measuredClaims, parseEventLog, replayRegisters } from '../../protocol/tdx/event_log'
import { attestationReportData } from '../../protocol/tdx/quote'
import { announcementsOf } from '../program/announcements_of'

const CALL_MS = 30_000

export type MachineQuestion = {
  /** Origin of the machine, https. Its certificate proves nothing yet; the nonce in the quote does. */
  url: string
  /** 64 hex digits of the manifest that must run there. */
  compose_hash: string
  policy: VerificationPolicy
  /** Absent: fetched from Intel or the policy's cache. */
  collateral?: Collateral
}
export type MachineFacts = {
  epoch_authority: string
  app_id: string
  instance_id: string
  tcb_status: string
  /** How the operating system was judged, or that the policy names none. */
  os_image: string
  /** As `bun run program announce` takes them, in this order: the machine waits for the last. */
  announcements: { list: string; id?: string; value?: string }[]
}

/** @throws Refused naming the failed check; MalformedQuote or MalformedEventLog. */
export async function readMachine(question: MachineQuestion, now_ms: number): Promise<MachineFacts> {
  const { policy } = question
  const nonce = crypto.getRandomValues(new Uint8Array(32))
  const proof = await fetchProof(question.url, toHex(nonce))
  const bytes = fromAnyHex(proof('quote'))
  const authority = decodeBase58(proof('tee_pubkey'), 32)
  if (bytes === undefined || authority === undefined) throw new Refused('the answer is malformed')
  const source = policy.collateral_url ?? INTEL_PCS
  const collateral = question.collateral ?? (await collectCollateral(source, bytes, CALL_MS))
  const opened = await openCollateral(collateral, trustedRoots(policy.roots_pem), now_ms)
  const genuine = await verifyUnderCollateral(bytes, opened, policy, now_ms)
  const { report_data, rtmr } = genuine.quote.report
  requireThat(
    equalBytes(report_data, attestationReportData(nonce, authority)),
    'report_data is not this nonce and the epoch authority',
  )
  const events = parseEventLog(proof('event_log'))
  for (const [index, register] of replayRegisters(events).entries())
    requireThat(equalBytes(register, rtmr[index]!), `the event log does not lead to RTMR${index}`)
  const claims = measuredClaims(events)
  const wanted = fromHex(question.compose_hash, 32)
  requireThat(wanted !== undefined && equalBytes(claims.compose_hash, wanted), 'another manifest runs there')
  return {
    epoch_authority: proof('tee_pubkey'),
    app_id: toHex(claims.app_id),
    instance_id: toHex(claims.instance_id),
    tcb_status: genuine.finding.status,
    os_image: await clientChecks({
      policy,
      bundle: { attestation: { vm_config: proof('vm_config') } },
      established: { genuine, events, claims },
    } as unknown as VerificationCase),
    announcements: announcementsOf(genuine.quote, proof('event_log'), authority).map(
      ({ list, id, value }) => ({
        list,
        ...(id && { id: toHex(id) }),
        ...(value && { value: toHex(value) }),
      }),
    ),
  }
}

/** The client's own checks, as far as they apply before there is a venue. @returns how the operating system was judged */
async function clientChecks(known: VerificationCase): Promise<string> {
  for (const check of [checkXfam, checkMrConfigId, checkAppId, checkKeyProvider])
    await passedOrSkipped(check, known)
  const judged = await passedOrSkipped(checkOsImage, known)
  return typeof judged === 'string' ? judged : String(judged['by'])
}

/** The values, or the reason of a skip. @throws Refused when the check fails */
async function passedOrSkipped(check: RunCheck, known: VerificationCase): Promise<CheckValues | string> {
  try {
    return await check(known)
  } catch (error) {
    if (error instanceof Skipped) return error.message
    throw error
  }
}

/** @returns how to read a text member of the answer. */
async function fetchProof(url: string, nonce: string): Promise<(name: string) => string> {
  const ask = (init: AskInit) =>
    fetch(new URL(`/attestation?reportData=${nonce}`, url), {
      ...init,
      tls: { rejectUnauthorized: false },
    })
  const answer = await askBounded(ask, VENUE_ANSWER_BYTES_MAX, CALL_MS).catch((error: Error) => {
    throw new Refused(`the machine ${error.message}`)
  })
  if (!answer.ok) throw new Refused(`the machine answers ${answer.status}`)
  const proof = (parseJson(new TextDecoder().decode(answer.bytes)) ?? {}) as Record<string, unknown>
  return (name) => {
    const value = proof[name]
    if (typeof value !== 'string') throw new Refused('the answer is malformed')
    return value
  }
}

const USAGE = 'usage: bun run read-machine URL --compose-hash HEX [--collateral FILE] [--policy FILE]'
if (import.meta.main)
  await runCommand(USAGE, async (args) => {
    const options = new Options(args, { texts: ['compose-hash', 'collateral', 'policy'], words: 1 })
    const [url] = options.words
    const compose_hash = toHex(options.hex32('compose-hash'))
    if (url === undefined || !URL.canParse(url))
      throw new UsageFault(`'${url ?? ''}' is not the URL of a machine`)
    const [policy_text, given] = [options.file('policy'), options.file('collateral')]
    const policy = policy_text === undefined ? BARE_POLICY : parsePolicy(policy_text)
    const collateral = given === undefined ? {} : { collateral: parseCollateral(given) }
    const facts = await readMachine({ url, compose_hash, policy, ...collateral }, Date.now())
    console.log(JSON.stringify(facts, null, 2))
  })
