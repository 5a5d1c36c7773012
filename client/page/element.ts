/** Makes elements of the pages; text becomes text, never markup. */

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
 * @param rows the first cell heads its row @param empty what is shown instead of a table without rows
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

/** Shows a message beside a form; a fault is marked by more than its colour. */
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
