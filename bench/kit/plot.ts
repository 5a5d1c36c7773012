/** Draws curves over logarithmic axes, or over time, with the machine's name, as SVG files of `docs/figures/`. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { machineText } from './figures'

type Curve = { name: string; points: readonly (readonly [x: number, y: number])[] }
type Plot = { title: string; x: string; y: string; curves: readonly Curve[]; linear_x?: true }

const FOLDER = join(import.meta.dir, '../../docs/figures')

const [WIDTH, HEIGHT] = [760, 420]
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 150, 56, 52]
/** Distinct for readers who do not see red and green, too; the markers differ as well. */
const COLORS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#555555', '#e69f00', '#56b4e9']
const DASHES = ['', '8 4', '2 3', '10 3 2 3', '5 5', '1 4', '12 2']

type Axis = { at(value: number): number; ticks: number[] }

/** Covers all values; ticks at 1, 2 and 5 times the powers of ten, or at the powers alone over more than three of them. */
function axis(values: readonly number[], from: number, to: number): Axis {
  const [least, most] = [Math.min(...values), Math.max(...values)]
  const decades = Math.log10(most / least)
  const steps = decades > 3 ? [1] : [1, 2, 5]
  const all: number[] = []
  for (let power = Math.floor(Math.log10(least)) - 1; power <= Math.ceil(Math.log10(most)) + 1; power++)
    for (const step of steps) all.push(Number((step * 10 ** power).toPrecision(1)))
  const low = all.findLast((one) => one <= least)!
  const high = all.find((one) => one >= most && one > low)!
  const span = Math.log(high / low)
  return {
    at: (value) => from + ((to - from) * Math.log(value / low)) / span,
    ticks: all.filter((one) => one >= low && one <= high),
  }
}

/** From zero, with at most ten steps. */
function linearAxis(values: readonly number[], from: number, to: number): Axis {
  const most = Math.max(...values)
  const step = [0.1, 0.5, 1, 2, 5, 10, 20, 50].find((one) => most / one <= 10) ?? most
  const steps = Math.ceil(most / step)
  return {
    at: (value) => from + ((to - from) * value) / (steps * step),
    ticks: Array.from({ length: steps + 1 }, (_, at) => at * step),
  }
}

const numberText = (value: number) => (value >= 1_000 ? value.toLocaleString('en-US') : String(value))
const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

function text(x: number, y: number, content: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(content)}</text>`
}

export function plotSvg({ title, x, y, curves, linear_x }: Plot): string {
  const points = curves.flatMap((curve) => curve.points)
  const [right, bottom] = [WIDTH - RIGHT, HEIGHT - BOTTOM]
  const across = (linear_x === true ? linearAxis : axis)(
    points.map(([one]) => one),
    LEFT,
    right,
  )
  const up = axis(
    points.map(([, one]) => one),
    bottom,
    TOP,
  )
  const parts = [
    text(LEFT, 24, title, 'font-size="16" font-weight="600"'),
    text(LEFT, 42, machineText(), 'font-size="11" fill="#555"'),
    text((LEFT + right) / 2, HEIGHT - 12, x, 'text-anchor="middle"'),
    text(0, 0, y, `text-anchor="middle" transform="translate(16 ${(TOP + bottom) / 2}) rotate(-90)"`),
  ]
  for (const tick of across.ticks) {
    const at = across.at(tick).toFixed(1)
    parts.push(`<path d="M${at} ${TOP}V${bottom}" stroke="#ddd"/>`)
    parts.push(text(Number(at), bottom + 18, numberText(tick), 'text-anchor="middle"'))
  }
  for (const tick of up.ticks) {
    const at = up.at(tick).toFixed(1)
    parts.push(`<path d="M${LEFT} ${at}H${right}" stroke="#ddd"/>`)
    parts.push(text(LEFT - 8, Number(at) + 4, numberText(tick), 'text-anchor="end"'))
  }
  let label_y = Number.NEGATIVE_INFINITY
  const ends = curves.map((curve, at) => ({ curve, at, y: up.at(curve.points.at(-1)![1]) }))
  for (const { curve, at, y: end_y } of ends.toSorted((a, b) => a.y - b.y)) {
    const color = COLORS[at % COLORS.length]!
    const places = curve.points.map(([px, py]) => [across.at(px).toFixed(1), up.at(py).toFixed(1)])
    const line = places.map((place) => place.join(' ')).join('L')
    const dash = DASHES[at % DASHES.length]!
    parts.push(
      `<path d="M${line}" fill="none" stroke="${color}" stroke-width="2" stroke-dasharray="${dash}"/>`,
    )
    for (const [cx, cy] of places) parts.push(`<circle cx="${cx}" cy="${cy}" r="3.5" fill="${color}"/>`)
    label_y = Math.max(end_y + 4, label_y + 16)
    parts.push(text(right + 10, label_y, curve.name, `fill="${color}"`))
  }
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">\n` +
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>\n${parts.join('\n')}\n</svg>\n`
  )
}

export function draw(name: string, plot: Plot): void {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(join(FOLDER, `${name}.svg`), plotSvg(plot))
}
