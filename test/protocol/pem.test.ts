/** PEM blocks: one spelling in, the same bytes out. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { derOfPem, pemOfDer } from '../../protocol/pem'

test('what is written is read back, block by block', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { minLength: 1, maxLength: 4 }),
      (blocks) => {
        expect(derOfPem(blocks.map((der) => pemOfDer(der, 'CERTIFICATE')).join(''), 'CERTIFICATE')).toEqual(
          blocks,
        )
      },
    ),
  )
})

const BLOCK = pemOfDer(Uint8Array.of(1, 2, 3), 'CERTIFICATE')
test.each([
  ['nothing', ''],
  ['text before a block', `x${BLOCK}`],
  ['text behind a block', `${BLOCK}x`],
  ['another label', pemOfDer(Uint8Array.of(1), 'PRIVATE KEY')],
  ['a cut block', BLOCK.slice(0, -5)],
  ['characters outside base64', BLOCK.replace('AQID', 'AQ*D')],
])('%s is refused', (_, text) => {
  expect(derOfPem(text, 'CERTIFICATE')).toBeUndefined()
})
