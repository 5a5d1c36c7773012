/** `/Info`: who this machine says it is. Each call makes a hardware quote on the host, so it is called once at boot. */
import { fromHex, utf8 } from '../../protocol/bytes'
import { AgentFailure, callAgent } from './call_agent'

export type AgentInfo = {
  /** 40 hex digits. */
  app_id: string
  /** 40 hex digits, or empty when the manifest asks for no instance id. */
  instance_id: string
  /** 64 hex digits, as the agent states it; the self-check compares it with what was measured. */
  compose_hash: string
  /** Bytes of the app-compose.json the machine booted from; SHA-256 of them is the compose hash. */
  app_compose: Uint8Array
}

/** @throws AgentFailure */
export async function getInfo(socket: string, time_limit_ms: number): Promise<AgentInfo> {
  const answer = await callAgent(socket, 'Info', {}, time_limit_ms)
  const tcb_info = parsed(answer['tcb_info'])
  const app_id = hex(answer['app_id'], 20)
  const instance_id = answer['instance_id'] === '' ? '' : hex(answer['instance_id'], 20)
  // The agent of dstack 0.5 states the compose hash inside tcb_info only.
  const compose_hash = hex(answer['compose_hash'] ?? tcb_info['compose_hash'], 32)
  const { app_compose } = tcb_info
  if (typeof app_compose !== 'string') throw new AgentFailure('Info', 'shape')
  return { app_id, instance_id, compose_hash, app_compose: utf8(app_compose) }
}

/** `tcb_info` is JSON inside a string. */
function parsed(value: unknown): Record<string, unknown> {
  try {
    const inner: unknown = typeof value === 'string' ? JSON.parse(value) : value
    if (typeof inner === 'object' && inner !== null) return inner as Record<string, unknown>
  } catch {
    // Falls through to the same failure as any other wrong shape.
  }
  throw new AgentFailure('Info', 'shape')
}

function hex(value: unknown, width: number): string {
  if (typeof value !== 'string' || fromHex(value, width) === undefined)
    throw new AgentFailure('Info', 'shape')
  return value
}
