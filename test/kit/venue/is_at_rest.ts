/** Which files of a running venue's folder a copy takes: the spare segment is still being prepared and holds no record. */
export function isAtRest(path: string): boolean {
  return !/\/spare[^/]*$/.test(path)
}
