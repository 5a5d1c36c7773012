/** Lists the syscalls the program may call and the number the runtime knows each by. */

/** Names outside this list do not link: the runtime loads unknown numbers and fails only when they are called. */
export const SYSCALLS: ReadonlySet<string> = new Set([
  'abort',
  'sol_create_program_address',
  'sol_get_clock_sysvar',
  'sol_get_rent_sysvar',
  'sol_get_stack_height',
  'sol_invoke_signed_c',
  'sol_memcmp_',
  'sol_memcpy_',
  'sol_memset_',
  'sol_poseidon',
  'sol_sha256',
  'sol_try_find_program_address',
])

const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by))

function scramble(block: number): number {
  return Math.imul(rotate(Math.imul(block, 0xcc9e2d51), 15), 0x1b873593)
}

/** Murmur3, 32 bits, seed 0, of the name (anza-xyz/sbpf `hash_symbol_name`). */
export function syscallNumber(name: string): number {
  const bytes = new TextEncoder().encode(name)
  const whole = bytes.length - (bytes.length % 4)
  const view = new DataView(bytes.buffer)
  let hash = 0
  for (let at = 0; at < whole; at += 4)
    hash = (Math.imul(rotate(hash ^ scramble(view.getUint32(at, true)), 13), 5) + 0xe6546b64) | 0
  let tail = 0
  for (let at = bytes.length - 1; at >= whole; at--) tail = (tail << 8) | bytes[at]!
  if (bytes.length > whole) hash ^= scramble(tail)
  hash ^= bytes.length
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
