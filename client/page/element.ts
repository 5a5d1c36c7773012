/** Makes elements of the pages, and figures as SVG; text becomes text, never markup. */

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  class_name: string,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  if (class_name !== '') made.className = class_name
  made.append(...children)
  return made
}

export const byId = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E

/** A number, its unit if it has one, or the sign that there is none. */
const AMOUNT = /^(✕ )?[0-9.]+( \S+)?$|^(–|none|none yet)$/

/**
 * A table with heads; on a narrow screen each cell shows its head. Columns of numbers are flush right.
 * @param rows the first cell heads its row
 * @param empty shown instead of a table without rows
 */
export function table(
  caption: string,
  heads: readonly string[],
  rows: (Node | string)[][],
  empty = `${caption}: none`,
): HTMLElement {
  if (rows.length === 0) return element('p', 'help', empty)
  const kinds = heads.map((_, at) =>
    at > 0 && rows.every((cells) => AMOUNT.test(String(cells[at]))) ? 'amount' : '',
  )
  const head = heads.map((title, at) => Object.assign(element('th', kinds[at]!, title), { scope: 'col' }))
  const body = rows.map((cells) => {
    const made = cells.map((content, at) => {
      const cell: HTMLElement =
        at === 0
          ? Object.assign(element('th', '', content), { scope: 'row' })
          : element('td', kinds[at]!, content)
      cell.dataset['label'] = heads[at] ?? ''
      return cell
    })
    return element('tr', '', ...made)
  })
  return element(
    'table',
    'even',
    element('caption', '', caption),
    element('thead', '', element('tr', '', ...head)),
    element('tbody', '', ...body),
  )
}

/** Shows a message next to a form; an error is marked by more than its colour. */
export function say(at: HTMLElement, text: string, is_fault = false): void {
  at.textContent = text
  at.className = is_fault ? 'fault' : ''
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : 'it failed')

const ENDS = 8
/** Long identifiers by their ends, in full on hover. */
export function short(value: string): HTMLElement {
  if (value.length <= 2 * ENDS + 1) return element('code', '', value)
  return Object.assign(element('code', '', `${value.slice(0, ENDS)}…${value.slice(-ENDS)}`), { title: value })
}

/** Names of the two tokens of an instrument. */
export function tokensOf(symbol: string): { base: string; quote: string } {
  const [base = '', quote = ''] = symbol.split('-')
  return { base, quote }
}

/** Of a mint, by the instruments that trade it: settings name only symbols. */
export function tokenName(mint: string, instruments: readonly Traded[]): string {
  for (const { symbol, base_mint, quote_mint } of instruments) {
    const { base, quote } = tokensOf(symbol)
    if (mint === base_mint) return base
    if (mint === quote_mint) return quote
  }
  return mint.slice(0, ENDS)
}
type Traded = { symbol: string; base_mint: string; quote_mint: string }

/** Draws figures as SVG: bars side by side, and a line over time. Heights come from exact integers, places need no document. */

const SVG = 'http://www.w3.org/2000/svg'
const [WIDTH, HEIGHT] = [600, 180]
const [LEFT, BOTTOM, TOP] = [4, 34, 32]
const SCALE = 10_000n
/** Most that a character of the labels takes on average, in a wide font of the style's size. */
const CHARACTER = 16
/** Of a short text a wide letter counts more. */
const widthOf = (text: string) => text.length * CHARACTER + 8

/** An SVG element before it is drawn: places and texts, without a document. */
export type Shape = {
  name: 'line' | 'rect' | 'text' | 'polyline' | 'circle'
  fields: Record<string, string | number>
  text?: string
  /** Shown on hover. */
  title?: string
}

function drawn(name: string, fields: Shape['fields'], text = '', title?: string): SVGElement {
  const made = document.createElementNS(SVG, name)
  for (const [field, value] of Object.entries(fields)) made.setAttribute(field, String(value))
  made.textContent = text
  if (title !== undefined) made.append(drawn('title', {}, title))
  return made
}

function frame(title: string, summary: string, shapes: readonly Shape[]): HTMLElement {
  const drawing = drawn('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: 'img',
    'aria-label': `${title}: ${summary}`,
  })
  drawing.append(
    drawn('line', { class: 'axis', x1: 0, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
    ...shapes.map(({ name, fields, text, title: hint }) => drawn(name, fields, text, hint)),
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

/** Bars, and the labels of as many of them as fit: none overlaps the one before or leaves the drawing. */
export function layoutBars(bars: readonly Bar[]): Shape[] {
  const most = bars.reduce((max, { value }) => (value !== null && value > max ? value : max), 0n)
  const step = (WIDTH - LEFT) / Math.max(bars.length, 1)
  const width = Math.min(step * 0.8, 120)
  let free_from = 0
  return bars.flatMap(({ label, value, text, series = 0 }, at): Shape[] => {
    const x = LEFT + at * step + (step - width) / 2
    const height = heightOf(value ?? 0n, most)
    const place = { x, y: HEIGHT - BOTTOM - height, width, height }
    const title = `${label}: ${text}`
    const bar: Shape = { name: 'rect', fields: { class: `series-${series}`, ...place }, title }
    const half = Math.max(widthOf(label), widthOf(text)) / 2
    const middle = Math.min(Math.max(x + width / 2, half), WIDTH - half)
    if (middle - half < free_from) return [bar]
    free_from = middle + half
    const fields = { x: middle, 'text-anchor': 'middle' }
    return [
      bar,
      { name: 'text', fields: { ...fields, y: HEIGHT - 6 }, text: label },
      { name: 'text', fields: { ...fields, y: place.y - 5, class: 'value' }, text },
    ]
  })
}

export function barChart(title: string, bars: readonly Bar[]): HTMLElement {
  const summary = bars.map(({ label, text }) => `${label} ${text}`).join(', ')
  return frame(title, summary || 'no data yet', layoutBars(bars))
}

export type Point = { label: string; value: bigint; text: string }

/** A line through values in their order, with the first and the last label; a single value is a dot in the middle. */
export function layoutLine(points: readonly Point[]): Shape[] {
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined) return []
  const sorted = points.map(({ value }) => value).toSorted((a, b) => (a < b ? -1 : 1))
  const [least, most] = [sorted[0]!, sorted.at(-1)!]
  // A flat line is drawn in the middle.
  const [from, span] = most === least ? [least > 0n ? least - 1n : 0n, 2n] : [least, most - least]
  const places = points.map(({ value }, index): [number, number] => {
    const x = points.length === 1 ? WIDTH / 2 : LEFT + (index / (points.length - 1)) * (WIDTH - 2 * LEFT)
    return [x, HEIGHT - BOTTOM - heightOf(value - from, span)]
  })
  const path = places.map((place) => place.map((one) => one.toFixed(1)).join(',')).join(' ')
  const [cx, cy] = places.at(-1)!
  const end = { x: WIDTH - LEFT, 'text-anchor': 'end' }
  const shapes: Shape[] = [
    { name: 'polyline', fields: { class: 'curve', points: path } },
    { name: 'circle', fields: { class: 'series-0', cx, cy, r: 3.5 } },
    { name: 'text', fields: { ...end, y: TOP - 6, class: 'value' }, text: last.text },
  ]
  const y = HEIGHT - 6
  if (points.length === 1)
    return [...shapes, { name: 'text', fields: { x: cx, y, 'text-anchor': 'middle' }, text: first.label }]
  shapes.push({ name: 'text', fields: { ...end, y }, text: last.label })
  if (widthOf(first.label) + widthOf(last.label) <= WIDTH - 2 * LEFT)
    shapes.push({ name: 'text', fields: { x: LEFT, y }, text: first.label })
  return shapes
}

export function lineChart(title: string, points: readonly Point[]): HTMLElement {
  const range = points.length === 0 ? 'no data yet' : `from ${points[0]!.text} to ${points.at(-1)!.text}`
  return frame(title, range, layoutLine(points))
}
