/** Searches files and texts for marks, and plants marks in copies of them to show that the search can find one. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fromHex, utf8 } from '../../../protocol/bytes'

/** Bytes by the name of the file or text that they are of. */
export type Places = ReadonlyMap<string, Buffer>
/** Bytes by the name of the value that they show. */
export type Marks = ReadonlyMap<string, Buffer>

/** Of a place that gets a planted mark: a file can have megabytes of zeros. */
const PLANTED_IN_MAX = 16 * 1024

/** Every file below the folder that `wanted` accepts, by its path there. */
export function filesOf(dir: string, wanted: (path: string) => boolean = () => true): Map<string, Buffer> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  const paths = files.map((file) => relative(dir, join(file.parentPath, file.name))).filter(wanted)
  return new Map(paths.map((path) => [path, readFileSync(join(dir, path))]))
}

/** Each text unchanged, and hex also as the bytes it encodes, in either case of its letters. */
export function marksOf(texts: Iterable<string>): Map<string, Buffer> {
  const marks = new Map<string, Buffer>()
  for (const text of texts) {
    marks.set(text, Buffer.from(utf8(text)))
    if (!/^(?:[0-9a-f]{2}){16,}$/.test(text)) continue
    marks.set(`${text} in capitals`, Buffer.from(text.toUpperCase()))
    marks.set(`bytes of ${text}`, Buffer.from(fromHex(text, text.length / 2)!))
    marks.set(`base64 of ${text}`, Buffer.from(base64Core(text)))
  }
  return marks
}

/** The characters of the value's base64 that do not depend on the bytes after it. */
function base64Core(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64').replace(/.?=*$/, '')
}

/** One line for each mark that a place holds. */
export function findMarks(places: Places, marks: Marks): string[] {
  const found: string[] = []
  for (const [place, content] of places)
    for (const [name, mark] of marks) if (content.includes(mark)) found.push(`${place} holds ${name}`)
  return found
}

/** The pairs of a place and a mark that the search misses when a copy of this place holds this mark. */
export function missedPlants(places: Places, marks: Marks): string[] {
  const missed: string[] = []
  for (const [place, whole] of places) {
    const content = whole.subarray(0, PLANTED_IN_MAX)
    const middle = content.length >>> 1
    for (const [name, mark] of marks) {
      const planted = Buffer.concat([content.subarray(0, middle), mark, content.subarray(middle)])
      const found = findMarks(new Map([[place, planted]]), new Map([[name, mark]]))
      if (found.length !== 1) missed.push(`${name} planted in ${place}`)
    }
  }
  return missed
}
