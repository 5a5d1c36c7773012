/** Writes tar archives (POSIX.1-1988 ustar) whose bytes follow from names, modes, owners and contents alone. */
import { concatBytes, utf8 } from '../../protocol/bytes'

export type TarEntry = {
  /** Relative, no leading or trailing slash. */
  path: string
  mode: number
  /** User and group of the entry. */
  owner: number
  /** Absent for a folder. */
  content?: Uint8Array
}

const BLOCK = 512
const [REGULAR, FOLDER] = ['0', '5']

/**
 * Entries in byte order of their paths, each stamped with `mtime_s`, no user names.
 * @throws RangeError for a path the format cannot hold.
 */
export function tarOf(entries: readonly TarEntry[], mtime_s: number): Uint8Array {
  const ordered = [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))
  const parts = ordered.flatMap((entry) => {
    const content = entry.content ?? new Uint8Array(0)
    return [header(entry, mtime_s), content, new Uint8Array(-content.length & (BLOCK - 1))]
  })
  return concatBytes(...parts, new Uint8Array(2 * BLOCK))
}

function header(entry: TarEntry, mtime_s: number): Uint8Array {
  const block = new Uint8Array(BLOCK)
  const text = (at: number, value: string) => block.set(utf8(value), at)
  const octal = (at: number, width: number, value: number) =>
    text(at, `${value.toString(8).padStart(width - 1, '0')}\0`)
  const { name, prefix } = splitPath(entry.content === undefined ? `${entry.path}/` : entry.path)
  text(0, name)
  octal(100, 8, entry.mode)
  octal(108, 8, entry.owner)
  octal(116, 8, entry.owner)
  octal(124, 12, entry.content?.length ?? 0)
  octal(136, 12, mtime_s)
  text(148, '        ')
  text(156, entry.content === undefined ? FOLDER : REGULAR)
  text(257, 'ustar\x0000')
  text(345, prefix)
  const sum = block.reduce((total, byte) => total + byte, 0)
  text(148, `${sum.toString(8).padStart(6, '0')}\0 `)
  return block
}

/** Up to 100 bytes of name, up to 155 of prefix, cut at a slash. */
function splitPath(path: string): { name: string; prefix: string } {
  if (utf8(path).length <= 100) return { name: path, prefix: '' }
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
    if (name !== '' && utf8(name).length <= 100 && utf8(prefix).length <= 155) return { name, prefix }
  }
  throw new RangeError(`${path}: too long for a tar header`)
}
