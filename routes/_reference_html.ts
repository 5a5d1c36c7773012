/** HTML text in which every inserted string is escaped, so that no value of a schema can become markup. */

export type Html = { readonly text: string }

const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function html(parts: TemplateStringsArray, ...values: (string | Html)[]): Html {
  let text = parts[0]!
  values.forEach((value, index) => {
    text += typeof value === 'string' ? escaped(value) : value.text
    text += parts[index + 1]!
  })
  return { text }
}

/** Markup written in this source tree. */
export function raw(text: string): Html {
  return { text }
}

export function join(parts: readonly Html[]): Html {
  return { text: parts.map(({ text }) => text).join('') }
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)
}

/** A sentence of the documents: what stands between backticks is code. */
export function prose(text: string): Html {
  return raw(escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>'))
}
