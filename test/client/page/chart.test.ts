/** Labels of a chart: no text overlaps another or leaves the drawing, for any values. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Bar, layoutBars, layoutLine, type Shape, tokenName } from '../../../client/page/element'

const [WIDTH, HEIGHT] = [600, 180]
/** Of the style, in units of the drawing. */
const FONT = 24
/** Of DejaVu Sans, among the widest of the system fonts: parts of the font's size. */
const [ASCENT, DESCENT, WIDE, NARROW, USUAL] = [0.76, 0.24, 0.98, 0.4, 0.64]
const advance = (letter: string): number => {
  if ('mw'.includes(letter)) return WIDE
  return ' .-:ilt'.includes(letter) ? NARROW : USUAL
}

type Box = { text: string; left: number; right: number; top: number; bottom: number }
function boxOf({ fields, text = '' }: Shape): Box {
  const width = [...text].reduce((sum, letter) => sum + advance(letter), 0) * FONT
  const [x, y] = [Number(fields['x']), Number(fields['y'])]
  const left =
    fields['text-anchor'] === 'middle' ? x - width / 2 : fields['text-anchor'] === 'end' ? x - width : x
  return { text, left, right: left + width, top: y - ASCENT * FONT, bottom: y + DESCENT * FONT }
}
/** Pairs of texts that overlap, and texts that leave the drawing. */
function faultsOf(shapes: readonly Shape[]): string[] {
  const boxes = shapes.filter(({ name }) => name === 'text').map(boxOf)
  const outside = boxes.filter(
    ({ left, right, top, bottom }) => left < 0 || right > WIDTH || top < 0 || bottom > HEIGHT,
  )
  const pairs = boxes.flatMap((one, at) =>
    boxes
      .slice(at + 1)
      .filter(
        (other) =>
          one.left < other.right &&
          other.left < one.right &&
          one.top < other.bottom &&
          other.top < one.bottom,
      )
      .map((other) => `${one.text} overlaps ${other.text}`),
  )
  return [...outside.map(({ text }) => `${text} is outside`), ...pairs]
}

const number = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
const label = fc.oneof(
  fc.constantFrom('in the vault', 'owed', '11-26', '07:26:40'),
  fc.nat(1_000_000_000).map((n) => `batch ${n}`),
  fc.nat(1_000_000_000).map((n) => `epoch ${n}`),
)
const shown = fc.oneof(
  fc.constant('too few'),
  number.map((n) => `${n} ms`),
  number.map((n) => `${n} slots`),
  fc.tuple(number, fc.nat(999_999_999)).map(([whole, part]) => `${whole}.${part}`),
)
/** The last label is short and has a wide letter. */
const EDGE = [...Array<string>(8).fill('epoch 0'), 'owed'].map((label) => ({ label, value: null, text: '0' }))
const value = fc.record({ label, value: number, text: shown })

test('labels of bars and of the axis do not overlap, however many and however long', () => {
  const bars = fc.array(fc.record({ label, value: fc.option(number), text: shown }), { maxLength: 80 })
  fc.assert(
    fc.property(bars, (some) => {
      const shapes = layoutBars(some)
      expect(faultsOf(shapes)).toEqual([])
      // Every bar is drawn, and the first has its label.
      expect(shapes.filter(({ name }) => name === 'rect')).toHaveLength(some.length)
      expect(shapes.some(({ text }) => text === some[0]?.label)).toBe(some.length > 0)
    }),
    { numRuns: 2_000, examples: [[EDGE]] },
  )
  fc.assert(
    fc.property(fc.array(value, { maxLength: 80 }), (points) => {
      expect(faultsOf(layoutLine(points))).toEqual([])
    }),
    { numRuns: 2_000 },
  )
})

test('all labels are there where all of them fit, and a label that is moved onto another is found', () => {
  const bars: Bar[] = ['in the vault', 'owed'].map((name) => ({ label: name, value: 20n, text: '20' }))
  const shapes = layoutBars(bars)
  const texts = shapes.filter(({ name }) => name === 'text')
  expect(texts.map(({ text }) => text)).toEqual(['in the vault', '20', 'owed', '20'])
  expect(faultsOf(shapes)).toEqual([])
  texts[2]!.fields['x'] = Number(texts[0]!.fields['x']) + 60
  expect(faultsOf(shapes)).toEqual(['in the vault overlaps owed'])
})

test('a single bar is in the middle; a mint that no instrument trades is named by its first characters', () => {
  const [bar] = layoutBars([{ label: 'owed', value: 20n, text: '20' }])
  expect(Number(bar!.fields['x']) + Number(bar!.fields['width']) / 2).toBeCloseTo(WIDTH / 2, -1)
  const traded = [{ symbol: 'SOL-USDC', base_mint: 'So111111', quote_mint: 'EPjFWdd5' }]
  const names = ['So111111', 'EPjFWdd5', 'J1toso1uCk3'].map((mint) => tokenName(mint, traded))
  expect(names).toEqual(['SOL', 'USDC', 'J1toso1u'])
})
