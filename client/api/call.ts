/** One JSON request over the pinned connection. */
import type { Problem } from '../../protocol/wire'
import type { Transport } from './transport'
import { VenueProblem } from './venue_problem'

export type CallOptions = { method?: 'GET' | 'POST' | 'PUT' | 'DELETE'; token?: string; body?: unknown }

/**
 * Resolves with the resource. @throws VenueProblem for a refusal; other errors (a lost connection) leave the outcome of
 * a command open: send the identical bytes again and `order_exists` tells its fate.
 */
export async function call<T>(transport: Transport, path: string, options: CallOptions = {}): Promise<T> {
  const headers: Record<string, string> = { accept: 'application/json' }
  if (options.token !== undefined) headers['authorization'] = `Bearer ${options.token}`
  if (options.body !== undefined) headers['content-type'] = 'application/json'
  const init: RequestInit = { method: options.method ?? 'GET', headers }
  if (options.body !== undefined) init.body = JSON.stringify(options.body)
  const response = await transport.fetch(path, init)
  if (response.ok) return (await response.json()) as T
  throw new VenueProblem((await response.json()) as Problem)
}

/** Query string of the fields that are set. */
export function query(fields: Record<string, string | number | undefined>): string {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined)
  return set.length === 0 ? '' : `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}`
}
