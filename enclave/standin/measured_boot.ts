/** The stand-in's boot: its event log by dstack's real rules, the registers it leads to, and its vm_config. */
import { toHex, utf8 } from '../../protocol/bytes'
import { parseEventLog, RUNTIME_EVENT_TYPE, replayRegisters, runtimeDigest } from '../../protocol/event_log'
import { bootDigest, DEVELOPMENT_ONLY, OS_IMAGE_HASH } from './platform'

type LoggedEvent = { imr: number; event_type: number; digest: string; event: string; event_payload: string }

export type MeasuredBoot = {
  registers: ReturnType<typeof replayRegisters>
  /** As `/Info` gives it: every digest and payload present. */
  full_log: LoggedEvent[]
  /** As `/GetQuote` gives it since dstack 0.5.6: firmware events without payload, runtime events without digest. */
  stripped_log: string
}

/** Firmware events per register: TCG event type and what it measures. */
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
      return { imr, event_type, digest: toHex(bootDigest(label)), event: '', event_payload }
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
