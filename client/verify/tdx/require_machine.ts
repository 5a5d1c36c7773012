/** What a trust domain must be, whoever runs it (Intel "TDX Module Base Architecture", TD attributes). */
import { equalBytes, fromHex, isZero } from '../../../protocol/bytes'
import type { TdReport } from '../../../protocol/quote'
import { requireThat } from '../refused'

/** Bit 28, SEPT_VE_DISABLE, and nothing else: no debugging, no performance monitoring, no reserved bit. */
const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
const DEBUG_BITS = 0xff
const SEPT_VE_DISABLE_BYTE = 3
const SEPT_VE_DISABLE = 0x10

/** @throws Refused */
export function requireMachine(report: TdReport): void {
  const { td_attributes, mr_service_td_15 } = report
  requireThat((td_attributes[0]! & DEBUG_BITS) === 0, 'the machine is under debug: the host reads its memory')
  requireThat(
    (td_attributes[SEPT_VE_DISABLE_BYTE]! & SEPT_VE_DISABLE) !== 0,
    'the host may inject memory faults (SEPT_VE_DISABLE is off)',
  )
  requireThat(equalBytes(td_attributes, TD_ATTRIBUTES), 'the machine has unexpected attributes')
  requireThat(
    mr_service_td_15 === undefined || isZero(mr_service_td_15),
    'a service TD is bound to the machine',
  )
}
