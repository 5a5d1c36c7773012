/** Opens a simulated guest agent, with an enclave on request, in a temporary folder that is removed with them. */
import { setSystemTime } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Enclave } from '../../enclave/contract'
import { type EnclaveOptions, openEnclave } from '../../enclave/index'
import { openStandInAgent, type StandInAgent, type StandInKnobs } from '../../sandbox/enclave/agent'

export const APP_COMPOSE = '{"manifest_version":2,"name":"tacit","runner":"docker-compose"}'
export const VENUE = new Uint8Array(32).fill(7)

export type Machine = { agent: StandInAgent; data_dir: string; close(): Promise<void> }

export async function openMachine(
  knobs: Partial<StandInKnobs> = {},
  app_compose = APP_COMPOSE,
): Promise<Machine> {
  const data_dir = mkdtempSync(join(tmpdir(), 'tacit-enclave-'))
  const agent = await openStandInAgent({ data_dir, app_compose, knobs })
  const close = async () => {
    await agent.close()
    rmSync(data_dir, { recursive: true, force: true })
  }
  return { agent, data_dir, close }
}

/** Collateral of the machine as it was issued so many days ago; it lives 30. */
export function olderCollateral({ agent }: Machine, days: number) {
  setSystemTime(Date.now() - days * 86_400_000)
  try {
    return agent.collateral()
  } finally {
    setSystemTime()
  }
}

export function openOn(agent: StandInAgent, more: Partial<EnclaveOptions> = {}): Promise<Enclave> {
  return openEnclave({ kind: 'development', agent, tls: { names: ['venue.example'] }, ...more })
}
