/** PEM text (RFC 7468): exact blocks in, DER out. */

const BLOCK = /^-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END \1-----/

/**
 * DER contents of the blocks in order. Undefined when the text holds anything but blocks of this label and
 * white space, or no block at all.
 */
export function derOfPem(text: string, label: string): Uint8Array[] | undefined {
  const blocks: Uint8Array[] = []
  let rest = text.trim()
  while (rest !== '') {
    const match = BLOCK.exec(rest)
    if (match === null || match[1] !== label) return undefined
    const der = base64Bytes(match[2]!.replace(/[\r\n]/g, ''))
    if (der === undefined) return undefined
    blocks.push(der)
    rest = rest.slice(match[0].length).trimStart()
  }
  return blocks.length === 0 ? undefined : blocks
}

/** One PEM block with lines of 64 characters and a final newline. */
export function pemOfDer(der: Uint8Array, label: string): string {
  let binary = ''
  for (const byte of der) binary += String.fromCharCode(byte)
  const lines = btoa(binary).match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}

function base64Bytes(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
