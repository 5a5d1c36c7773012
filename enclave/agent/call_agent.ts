/** One call of the dstack guest agent over its unix socket (dstack guest API v0, JSON transport). */

/** The agent did not give a usable answer. Says which method and what kind of failure, never what was exchanged. */
export class AgentFailure extends Error {
  override readonly name = 'AgentFailure'
  constructor(
    readonly method: string,
    readonly kind: 'unreachable' | 'time_limit' | 'status' | 'shape',
    detail = '',
  ) {
    super(`guest agent ${method}: ${kind}${detail}`)
  }
}

export type AgentMethod = 'Info' | 'GetKey' | 'GetQuote'

/**
 * POSTs `params` to the method and returns the JSON object of a 200 answer.
 * @throws AgentFailure for no answer in time, any other status, or anything but a JSON object.
 */
export async function callAgent(
  socket: string,
  method: AgentMethod,
  params: Record<string, string>,
  time_limit_ms: number,
): Promise<Record<string, unknown>> {
  let status: number
  let text: string
  try {
    const response = await fetch(`http://dstack/${method}`, {
      unix: socket,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(params),
      signal: AbortSignal.timeout(time_limit_ms),
      // A pooled connection would outlive a restart of the agent and fail the next call.
      keepalive: false,
    })
    status = response.status
    text = await response.text()
  } catch (error) {
    const timed_out = error instanceof Error && error.name === 'TimeoutError'
    throw new AgentFailure(method, timed_out ? 'time_limit' : 'unreachable')
  }
  if (status !== 200) throw new AgentFailure(method, 'status', ` ${status}`)
  return jsonObject(method, text)
}

function jsonObject(method: string, text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new AgentFailure(method, 'shape')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AgentFailure(method, 'shape')
  return value as Record<string, unknown>
}
