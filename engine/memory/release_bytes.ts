/**
 * Releases the memory of large bytes at once. A collection may come late, and a stale reference on the stack keeps the
 * bytes alive while the thread idles. Afterwards they and every view of them have length 0.
 */
export function releaseBytes(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}
