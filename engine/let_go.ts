/**
 * Gives the memory of large bytes back at once: a collection may come late, and an old reference that it finds on the
 * stack keeps them for as long as the thread idles. They have no length from here on, as has every view of them.
 */
export function letGo(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}
