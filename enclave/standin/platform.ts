/** The imaginary platform of the stand-in: identifiers, security versions and measurements, none of which Intel issued. */
import { sha384 } from '@noble/hashes/sha2.js'
import { fromHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'

/** Every name and every measurement below carries these words. */
export const DEVELOPMENT_ONLY = 'DEVELOPMENT ONLY'

const hash32 = (label: string): Uint8Array => sha256(utf8(`${DEVELOPMENT_ONLY} ${label}`))
const hash48 = (label: string): Uint8Array => sha384(utf8(`${DEVELOPMENT_ONLY} ${label}`))

export const FMSPC = fromHex('de0e00000000', 6)!
export const PCE_ID = new Uint8Array(2)
export const PPID = hash32('ppid').subarray(0, 16)
export const PLATFORM_INSTANCE_ID = hash32('platform instance').subarray(0, 16)
/** 16 SGX component versions. */
export const CPU_SVN = fromHex('03030202040100050000000000000000', 16)!
export const PCE_SVN = 13
/** 16 TDX component versions: module SVN 6, module major version 1, late microcode update 3 (or 2 when outdated). */
export const TEE_TCB_SVN = fromHex('06010300000000000000000000000000', 16)!
export const TEE_TCB_SVN_OUT_OF_DATE = fromHex('06010200000000000000000000000000', 16)!

/** Intel's vendor id: verifiers accept no other, so a development quote carries it and differs by its root alone. */
export const QE_VENDOR_ID = fromHex('939a7233f79c4ca9940a0db3957f0607', 16)!
export const QE_ID = hash32('qe id').subarray(0, 16)
export const QE_MR_ENCLAVE = hash32('qe mrenclave')
export const QE_MR_SIGNER = hash32('qe mrsigner')
export const QE_ATTRIBUTES = fromHex('1500000000000000e700000000000000', 16)!
export const QE_PROD_ID = 2
export const QE_SVN = 4

export const MR_SEAM = hash48('mrseam')
export const MR_TD = hash48('mrtd')
/** SEPT_VE_DISABLE only, as dstack machines have it. */
export const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
export const TD_ATTRIBUTES_DEBUG = fromHex('0100001000000000', 8)!
export const XFAM = fromHex('e702060000000000', 8)!
export const OS_IMAGE_HASH = hash32('os image')
/** What the machine measures as manifest when the knob says that it booted another one. */
export const OTHER_COMPOSE_HASH = hash32('another manifest')
export const bootDigest = (label: string): Uint8Array => hash48(label)
