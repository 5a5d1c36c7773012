/** Shows text with its hashes, keys and addresses short, in full on hover, and each with a button that copies it. */

/** Hex and base58 values of 20 bytes and more. */
const LONG_VALUE = /[0-9A-Za-z]{32,}/g
const ENDS = 8

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

/** The text as nodes; nothing in it is ever read as markup. */
export function showValue(text: string): (Node | string)[] {
  const nodes: (Node | string)[] = []
  let at = 0
  for (const match of text.matchAll(LONG_VALUE)) {
    nodes.push(text.slice(at, match.index), showLong(match[0]))
    at = match.index + match[0].length
  }
  return [...nodes, text.slice(at)]
}

function showLong(value: string): Node {
  const short = element('code', '', `${value.slice(0, ENDS)}…${value.slice(-ENDS)}`)
  short.title = value
  const copy = element('button', 'copy', 'copy')
  copy.type = 'button'
  copy.setAttribute('aria-label', `copy ${value.slice(0, ENDS)} in full`)
  copy.addEventListener('click', () => void copyText(copy, value))
  return element('span', 'long', short, copy)
}

async function copyText(button: HTMLButtonElement, value: string): Promise<void> {
  const word = await navigator.clipboard.writeText(value).then(
    () => 'copied',
    () => 'refused',
  )
  button.textContent = word
  setTimeout(() => {
    button.textContent = 'copy'
  }, 1500)
}
