/** Reads the memory of the venue process from its metrics. */
import { callOperator } from '../../../tools/account/call_operator'
import { operatorNow, operatorTarget } from './open_account'
import type { VenueProcess } from './venue_process'

export async function readMetrics(venue: VenueProcess): Promise<string> {
  const call = { method: 'GET', path: '/metrics', body: undefined } as const
  return callOperator(await operatorTarget(venue), call, operatorNow())
}

export async function residentBytes(venue: VenueProcess): Promise<number> {
  const line = /^process_resident_memory_bytes ([0-9.e+]+)$/m.exec(await readMetrics(venue))
  if (line === null) throw new Error('the metrics do not tell the resident memory')
  return Number(line[1])
}
