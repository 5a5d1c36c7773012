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

/** A table with heads; on a narrow screen each cell shows its head. @param rows the first cell heads its row */
export function table(caption: string, heads: readonly string[], rows: (Node | string)[][]): HTMLElement {
  const head = heads.map((title) => Object.assign(element('th', '', title), { scope: 'col' }))
  const body = rows.map((cells) => {
    const made = cells.map((content, at) => {
      const cell: HTMLElement =
        at === 0 ? Object.assign(element('th', '', content), { scope: 'row' }) : element('td', '', content)
      cell.dataset['label'] = heads[at] ?? ''
      return cell
    })
    return element('tr', '', ...made)
  })
  if (rows.length === 0) return element('p', 'help', `${caption}: none`)
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

const ENDS = 8
/** Long identifiers by their ends, in full on hover. */
export function short(value: string): HTMLElement {
  if (value.length <= 2 * ENDS + 1) return element('code', '', value)
  return Object.assign(element('code', '', `${value.slice(0, ENDS)}…${value.slice(-ENDS)}`), { title: value })
}

/** Of a mint, by the instruments that trade it: settings name only symbols. */
export function tokenName(mint: string, instruments: readonly Traded[]): string {
  for (const { symbol, base_mint, quote_mint } of instruments) {
    const [base = '', quote = ''] = symbol.split('-')
    if (mint === base_mint) return base
    if (mint === quote_mint) return quote
  }
  return mint.slice(0, ENDS)
}
type Traded = { symbol: string; base_mint: string; quote_mint: string }
