/** Reads and writes non-negative integers below 2^53 in 8 bytes, little-endian, without going through bigint. */

export function setSafe(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % 0x1_0000_0000, true)
  view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true)
}

export function getSafe(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 0x1_0000_0000
}

/** Reads from bytes instead of a view: creating a DataView per frame costs more than reading the frame. */
export function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  )
}

export function readSafe(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at) + readU32(bytes, at + 4) * 0x1_0000_0000
}
