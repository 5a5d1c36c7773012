/** Asks a Solana node: the answer has the form of its method, and a rejection has a sentence. */

import {
  getSolanaErrorFromJsonRpcError,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  SolanaError,
} from '@solana/kit'
import { askJsonRpc, BadStatus, notOfANode } from '../../protocol/ask_bounded'
import { printable } from '../verify/transcript'

type Form = (value: unknown) => boolean
type Fields = Readonly<Record<string, unknown>>

const isText: Form = (value) => typeof value === 'string'
const isCount: Form = (value) => Number.isSafeInteger(value) && Number(value) >= 0
/** `err` of a transaction: null, or an error of any form, which is printed only. */
const isAny: Form = (value) => value !== undefined
const nullOr =
  (form: Form): Form =>
  (value) =>
    value === null || form(value)
/** A field that some versions of a node leave out. */
const ifAny =
  (form: Form): Form =>
  (value) =>
    value === undefined || value === null || form(value)
const listOf =
  (form: Form, length?: number): Form =>
  (value) =>
    Array.isArray(value) && (length === undefined || value.length === length) && value.every(form)
const withFields =
  (fields: Readonly<Record<string, Form>>): Form =>
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(fields).every(([name, form]) => form((value as Fields)[name]))
const inContext = (form: Form): Form => withFields({ context: withFields({ slot: isCount }), value: form })

/** `[text, "base64"]`. */
const isBase64: Form = (value) => {
  const text: unknown = Array.isArray(value) ? value[0] : undefined
  return typeof text === 'string' && text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}
const isUnits: Form = (value) => typeof value === 'string' && /^[0-9]{1,20}$/.test(value)
const isLevel: Form = (value) => value === 'processed' || value === 'confirmed' || value === 'finalized'
const isAccount = withFields({ owner: isText, data: isBase64 })
const isInner = withFields({ programIdIndex: isCount, data: isText })
const isMeta = withFields({
  err: isAny,
  innerInstructions: ifAny(listOf(withFields({ index: isCount, instructions: listOf(isInner) }))),
  loadedAddresses: ifAny(withFields({ writable: listOf(isText), readonly: listOf(isText) })),
})

/** By method (Solana JSON-RPC, accounts and transactions in base64). @param asked the first parameter */
const FORMS: Readonly<Record<string, (asked: unknown) => Form>> = {
  getAccountInfo: () => inContext(nullOr(isAccount)),
  getBalance: () => inContext(isCount),
  getBlockHeight: () => isCount,
  getBlockTime: () => nullOr(isCount),
  getGenesisHash: () => isText,
  getLatestBlockhash: () => inContext(withFields({ blockhash: isText, lastValidBlockHeight: isCount })),
  getMinimumBalanceForRentExemption: () => isCount,
  getMultipleAccounts: (asked) => inContext(listOf(nullOr(isAccount), lengthOf(asked))),
  getProgramAccounts: () => listOf(withFields({ pubkey: isText, account: isAccount })),
  getSignatureStatuses: (asked) =>
    inContext(listOf(nullOr(withFields({ err: isAny, confirmationStatus: isLevel })), lengthOf(asked))),
  getSignaturesForAddress: () => listOf(withFields({ signature: isText, slot: isCount, err: isAny })),
  getSlot: () => isCount,
  getTokenAccountBalance: () => inContext(withFields({ amount: isUnits })),
  getTransaction: () => nullOr(withFields({ transaction: isBase64, meta: nullOr(isMeta) })),
  requestAirdrop: () => isText,
  sendTransaction: () => isText,
  simulateTransaction: () => inContext(withFields({ err: isAny })),
  tacit_mintTo: () => isText,
}
const lengthOf = (asked: unknown): number => (Array.isArray(asked) ? asked.length : 0)

/** Whether the result has the form that the method gives; of a method without a form any has. */
function hasForm({ method, params }: { method: string; params: unknown }, result: unknown): boolean {
  const form = Object.hasOwn(FORMS, method) ? FORMS[method] : undefined
  return form === undefined || form(Array.isArray(params) ? params[0] : undefined)(result)
}

/** The node rejects a call with a code that Solana does not define. */
export class NodeRefused extends Error {
  override readonly name = 'NodeRefused'
}

type Call = { method: string; params: unknown }

/** @throws NoAnswer, SolanaError for a status of HTTP, SyntaxError for an answer of another form, NodeRefused */
export async function askNode(url: string, payload: Call, timeout_ms: number) {
  const answer = await askJsonRpc(url, payload, timeout_ms).catch((error: unknown) => {
    if (!(error instanceof BadStatus)) throw error
    const { status: statusCode, headers } = error
    throw new SolanaError(SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR, {
      headers,
      message: String(statusCode),
      statusCode,
    })
  })
  if (!('error' in answer)) {
    if (!hasForm(payload, answer.result)) throw notOfANode()
    return answer
  }
  const { code, message } = Object(answer.error)
  if (!Number.isSafeInteger(code) || typeof message !== 'string') throw notOfANode()
  if (!isKnown(answer.error)) throw new NodeRefused(`${printable(message)} (${code})`)
  return answer
}

/** The library has no sentence for another code, and fails over it. */
function isKnown(error: unknown): boolean {
  try {
    return getSolanaErrorFromJsonRpcError(error).message !== ''
  } catch {
    return false
  }
}
