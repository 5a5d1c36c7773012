/** Describes the imaginary machine: platform identifiers, measurements, event log, registers. Intel issued none of them. */

import { sha384 } from '@noble/hashes/sha2.js'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import {
  parseEventLog,
  RUNTIME_EVENT_TYPE,
  replayRegisters,
  runtimeDigest,
} from '../../protocol/tdx/event_log'

/** Part of every name and measurement below. */
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

/** Intel's vendor id and signer, because verifiers and the vault accept no other; a development quote differs only by its root. */
export const QE_VENDOR_ID = fromHex('939a7233f79c4ca9940a0db3957f0607', 16)!
export const QE_ID = hash32('qe id').subarray(0, 16)
export const QE_MR_ENCLAVE = hash32('qe mrenclave')
export const QE_MR_SIGNER = fromHex('dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5', 32)!
export const QE_ATTRIBUTES = fromHex('1500000000000000e700000000000000', 16)!
export const QE_PROD_ID = 2
export const QE_SVN = 4

export const MR_SEAM = hash48('mrseam')
export const MR_TD = hash48('mrtd')
/** SEPT_VE_DISABLE only, as on dstack machines. */
export const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
export const TD_ATTRIBUTES_DEBUG = fromHex('0100001000000000', 8)!
export const XFAM = fromHex('e702060000000000', 8)!
export const OS_IMAGE_HASH = hash32('os image')
/** The manifest measured when the knob `wrong_compose_hash` is set. */
export const OTHER_COMPOSE_HASH = hash32('another manifest')

type LoggedEvent = { imr: number; event_type: number; digest: string; event: string; event_payload: string }

type MeasuredBoot = {
  registers: ReturnType<typeof replayRegisters>
  /** As in `/Info`: with every digest and payload. */
  full_log: LoggedEvent[]
  /** As in `/GetQuote` since dstack 0.5.6: firmware events without payload, runtime events without digest. */
  stripped_log: string
}

/** Firmware events: register, TCG event type and measured component. */
const FIRMWARE_EVENTS: readonly [imr: number, event_type: number, label: string][] = [
  [0, 0x8000_000b, 'td hob'],
  [0, 0x8000_000a, 'firmware volume'],
  [0, 0x8000_0001, 'secure boot variables'],
  [0, 4, 'separator'],
  [0, 10, 'acpi tables'],
  [1, 0x8000_0003, 'kernel'],
  [1, 0x8000_0007, 'boot services exit'],
  [2, 6, 'command line'],
  [2, 6, 'initrd'],
]

/** The event log by dstack's rules, and the registers it replays to. */
export function measureBoot(
  app_id: Uint8Array,
  compose_hash: Uint8Array,
  instance_id: Uint8Array,
): MeasuredBoot {
  const runtime: [name: string, payload: Uint8Array][] = [
    ['system-preparing', new Uint8Array()],
    ['app-id', app_id],
    ['compose-hash', compose_hash],
    ['instance-id', instance_id],
    ['boot-mr-done', new Uint8Array()],
    ['os-image-hash', OS_IMAGE_HASH],
    ['key-provider', utf8(JSON.stringify({ name: DEVELOPMENT_ONLY, id: '' }))],
    ['storage-fs', utf8('none')],
    ['system-ready', new Uint8Array()],
  ]
  const full_log: LoggedEvent[] = [
    ...FIRMWARE_EVENTS.map(([imr, event_type, label]) => {
      const event_payload = toHex(utf8(`${DEVELOPMENT_ONLY} ${label}`))
      return { imr, event_type, digest: toHex(hash48(label)), event: '', event_payload }
    }),
    ...runtime.map(([event, payload]) => {
      const digest = toHex(runtimeDigest(event, payload))
      return { imr: 3, event_type: RUNTIME_EVENT_TYPE, digest, event, event_payload: toHex(payload) }
    }),
  ]
  const stripped_log = JSON.stringify(
    full_log.map((event) => (event.imr === 3 ? { ...event, digest: '' } : { ...event, event_payload: '' })),
  )
  return { registers: replayRegisters(parseEventLog(stripped_log)), full_log, stripped_log }
}

export const VM_CONFIG = JSON.stringify({
  spec_version: 1,
  os_image_hash: toHex(OS_IMAGE_HASH),
  cpu_count: 2,
  memory_size: 4_294_967_296,
  qemu_version: DEVELOPMENT_ONLY,
  pci_hole64_size: 0,
  hugepages: false,
  num_gpus: 0,
  num_nvswitches: 0,
  hotplug_off: true,
  image: DEVELOPMENT_ONLY,
  tdx_attestation_variant: 'legacy',
})
