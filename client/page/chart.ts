/** Draws figures as SVG: bars side by side, and a line over time. Heights come from exact integers. */
import { element } from './element'

const SVG = 'http://www.w3.org/2000/svg'
const [WIDTH, HEIGHT] = [600, 180]
const [LEFT, BOTTOM, TOP] = [4, 34, 32]
const SCALE = 10_000n
/** Width of a character of the labels, with a margin. */
const CHARACTER = 14

function shape(name: string, fields: Record<string, string | number>, text?: string): SVGElement {
  const made = document.createElementNS(SVG, name)
  for (const [field, value] of Object.entries(fields)) made.setAttribute(field, String(value))
  if (text !== undefined) made.textContent = text
  return made
}

function frame(title: string, summary: string, ...shapes: SVGElement[]): HTMLElement {
  const drawing = shape('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': `${title}: ${summary}`,
  })
  drawing.append(
    shape('line', { class: 'axis', x1: 0, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
    ...shapes,
  )
  const figure = element('figure', 'chart', element('figcaption', '', title))
  figure.append(drawing)
  return figure
}

/** Height of `value` in a drawing whose highest is `most`. */
function heightOf(value: bigint, most: bigint): number {
  if (most === 0n) return 0
  return (Number((value * SCALE) / most) / Number(SCALE)) * (HEIGHT - BOTTOM - TOP)
}

export type Bar = {
  label: string
  /** Not negative; null: not known. */
  value: bigint | null
  /** The value as people read it. */
  text: string
  /** Series, of which there are two. */
  series?: 0 | 1
}

export function barChart(title: string, bars: readonly Bar[]): HTMLElement {
  const most = bars.reduce((max, { value }) => (value !== null && value > max ? value : max), 0n)
  const step = (WIDTH - LEFT) / Math.max(bars.length, 1)
  const width = Math.min(step * 0.8, 120)
  // Every so many bars have a label, none of which overlaps the next or the edge.
  const longest = Math.max(0, ...bars.flatMap(({ label, text }) => [label.length, text.length]))
  const every = Math.min(Math.max(Math.ceil((longest * CHARACTER) / step), 1), bars.length)
  const shapes = bars.flatMap(({ label, value, text, series = 0 }, at) => {
    const x = LEFT + at * step + (step - width) / 2
    const height = heightOf(value ?? 0n, most)
    const bar = shape('rect', { class: `series-${series}`, x, y: HEIGHT - BOTTOM - height, width, height })
    bar.append(shape('title', {}, `${label}: ${text}`))
    if (at % every !== Math.floor(every / 2) || at + every / 2 > bars.length) return [bar]
    const middle = { x: x + width / 2, 'text-anchor': 'middle' }
    const shown = shape('text', { ...middle, y: HEIGHT - 6 }, label)
    return [bar, shown, shape('text', { ...middle, y: HEIGHT - BOTTOM - height - 5, class: 'value' }, text)]
  })
  return frame(
    title,
    bars.map(({ label, text }) => `${label} ${text}`).join(', ') || 'no data yet',
    ...shapes,
  )
}

export type Point = { label: string; value: bigint; text: string }

/** A line through values in their order; a single value is a dot in the middle. */
export function lineChart(title: string, points: readonly Point[]): HTMLElement {
  const values = points.map(({ value }) => value)
  const sorted = values.toSorted((a, b) => (a < b ? -1 : 1))
  const [least, most] = [sorted[0] ?? 0n, sorted.at(-1) ?? 0n]
  // A flat line is drawn in the middle.
  const [from, span] = most === least ? [least > 0n ? least - 1n : 0n, 2n] : [least, most - least]
  const at = (index: number): [number, number] => {
    const x = points.length === 1 ? WIDTH / 2 : LEFT + (index / (points.length - 1)) * (WIDTH - 2 * LEFT)
    return [x, HEIGHT - BOTTOM - heightOf(values[index]! - from, span)]
  }
  const path = points
    .map((_, index) =>
      at(index)
        .map((one) => one.toFixed(1))
        .join(','),
    )
    .join(' ')
  const shapes: SVGElement[] = [shape('polyline', { class: 'curve', points: path })]
  const last = points.at(-1)
  if (last !== undefined) {
    const [cx, cy] = at(points.length - 1)
    shapes.push(shape('circle', { class: 'series-0', cx, cy, r: 3.5 }))
    shapes.push(
      shape('text', { x: WIDTH - LEFT, y: TOP - 6, 'text-anchor': 'end', class: 'value' }, last.text),
    )
    const anchor = points.length === 1 ? { x: cx, 'text-anchor': 'middle' } : { x: LEFT }
    shapes.push(shape('text', { ...anchor, y: HEIGHT - 6 }, points[0]!.label))
    if (points.length > 1)
      shapes.push(shape('text', { x: WIDTH - LEFT, y: HEIGHT - 6, 'text-anchor': 'end' }, last.label))
  }
  const range = points.length === 0 ? 'no data yet' : `from ${points[0]!.text} to ${last!.text}`
  return frame(title, range, ...shapes)
}
