/** The SGX extension of a PCK certificate (Intel "SGX PCK Certificate and CRL Profile Specification", section 1.3.5). */

import { type Extension, extension } from '../x509/certificate'
import * as der from '../x509/der'
import { CPU_SVN, FMSPC, PCE_ID, PCE_SVN, PLATFORM_INSTANCE_ID, PPID } from './platform'

const SGX = '1.2.840.113741.1.13.1'

export function sgxExtension(): Extension {
  const item = (path: string, value: Uint8Array) => der.sequence(der.oid(`${SGX}.${path}`), value)
  const components = Array.from(CPU_SVN, (svn, index) => item(`2.${index + 1}`, der.smallInteger(svn)))
  const configuration = [1, 2, 3].map((number) => item(`7.${number}`, der.boolean(true)))
  const value = der.sequence(
    item('1', der.octets(PPID)),
    item(
      '2',
      der.sequence(...components, item('2.17', der.smallInteger(PCE_SVN)), item('2.18', der.octets(CPU_SVN))),
    ),
    item('3', der.octets(PCE_ID)),
    item('4', der.octets(FMSPC)),
    item('5', der.enumerated(1)),
    item('6', der.octets(PLATFORM_INSTANCE_ID)),
    item('7', der.sequence(...configuration)),
  )
  return extension(SGX, false, value)
}
