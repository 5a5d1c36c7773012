/** Which pages in a browser may read the embedded chain: those of this machine, and no others. */
import { expect, test } from 'bun:test'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { chainFolder } from '../kit/chain/chain_folder'

const ALLOWED = 'access-control-allow-origin'

test('a page of this machine may ask, a page from elsewhere may not', async () => {
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: 20 })
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
  const ask = (method: 'OPTIONS' | 'POST', origin: string) =>
    fetch(chain.url, {
      method,
      headers: { origin, 'content-type': 'application/json' },
      ...(method === 'POST' ? { body } : {}),
    })
  try {
    for (const origin of ['http://127.0.0.1:8080', 'https://localhost']) {
      const preflight = await ask('OPTIONS', origin)
      expect(preflight.headers.get(ALLOWED)).toBe(origin)
      expect(preflight.headers.get('access-control-allow-headers')).toBe('content-type, solana-client')
      expect((await ask('POST', origin)).headers.get(ALLOWED)).toBe(origin)
    }
    for (const origin of [
      'null',
      'https://example.com',
      'http://localhost.example',
      'http://127.0.0.1.example',
    ]) {
      expect((await ask('OPTIONS', origin)).headers.get(ALLOWED)).toBeNull()
      expect((await ask('POST', origin)).headers.get(ALLOWED)).toBeNull()
    }
  } finally {
    await chain.close()
    folder.remove()
  }
})
