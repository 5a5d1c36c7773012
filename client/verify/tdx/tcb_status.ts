/** Intel's TCB statuses and how several findings about one platform combine. */
import { TCB_STATUSES } from '../policy'
import { Refused } from '../refused'

/** Best first. */
const STATUSES = [...TCB_STATUSES, 'Revoked'] as const
export type TcbStatus = (typeof STATUSES)[number]

/** One matched level of a signed document. */
export type TcbFinding = { status: TcbStatus; tcb_date: string; advisories: readonly string[] }

export function readTcbStatus(text: string): TcbStatus {
  const status = STATUSES.find((known) => known === text)
  if (status === undefined) throw new Refused('unknown TCB status')
  return status
}

const CONFIGURATION: readonly TcbStatus[] = ['ConfigurationNeeded', 'ConfigurationAndSWHardeningNeeded']

function worse(a: TcbStatus, b: TcbStatus): TcbStatus {
  const pair = [a, b]
  // An outdated part does not lift what the configuration still lacks.
  if (pair.includes('OutOfDate') && pair.some((status) => CONFIGURATION.includes(status)))
    return 'OutOfDateConfigurationNeeded'
  if (pair.includes('SWHardeningNeeded') && pair.includes('ConfigurationNeeded'))
    return 'ConfigurationAndSWHardeningNeeded'
  return STATUSES.indexOf(a) > STATUSES.indexOf(b) ? a : b
}

/** The worst of all findings, the oldest date, and every advisory once. */
export function combineFindings(findings: readonly [TcbFinding, ...TcbFinding[]]): TcbFinding {
  return findings.reduce((a, b) => ({
    status: worse(a.status, b.status),
    tcb_date: [a.tcb_date, b.tcb_date].sort()[0]!,
    advisories: [...new Set([...a.advisories, ...b.advisories])],
  }))
}
