/** Checks every refusal: a problem document of a known code that echoes no part of the request. */
import { REFUSAL_BY_CODE, type RefusalCode } from '../../../protocol/refusals'

/** Part of every hostile request, and of no answer. */
export const MARKER = 'zq7hostile'

const FIELDS = ['type', 'title', 'status', 'detail', 'code', 'message', 'request_id', 'applied']
const FACTS = ['field', 'nonce_last', 'retry_after_ms', 'status_now', 'subsystem', 'result']

export type Told = { status: number; content_type: string | null; headers: string; text: string }

/** @returns what is wrong with the refusal; `expected` are its codes, any known one when left out. */
export function problemFaults(told: Told, expected?: readonly RefusalCode[]): string[] {
  const { status, content_type, headers, text } = told
  const faults: string[] = []
  if ((text + headers).toLowerCase().includes(MARKER)) faults.push('what was sent is echoed')
  if (content_type !== 'application/problem+json') return [...faults, `${status} of type ${content_type}`]
  const problem = JSON.parse(text) as Record<string, unknown>
  const code = problem['code'] as RefusalCode
  const entry = REFUSAL_BY_CODE.get(code)
  if (entry === undefined) return [...faults, `unknown code ${code}`]
  if (expected !== undefined && !expected.includes(code)) faults.push(`${code} instead of ${expected}`)
  if (status !== entry.status || problem['status'] !== entry.status)
    faults.push(`${code} with status ${status}`)
  if (code === 'internal') faults.push('the venue failed')
  if (problem['applied'] !== 'no') faults.push(`applied ${problem['applied']}`)
  for (const name of FIELDS) if (!(name in problem)) faults.push(`no ${name}`)
  for (const name of Object.keys(problem)) {
    if (!FIELDS.includes(name) && !FACTS.includes(name)) faults.push(`an unknown member ${name}`)
  }
  return faults
}

export async function toldBy(response: Response): Promise<Told> {
  const headers = [...response.headers].map((pair) => pair.join(': ')).join('\n')
  const { status } = response
  return { status, content_type: response.headers.get('content-type'), headers, text: await response.text() }
}
