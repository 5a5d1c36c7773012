/** TLS material: a key that stays in memory, a certificate others can check, rotation with its evidence. */
import { expect, test } from 'bun:test'
import { generateTls } from '../../enclave/x509'

test('a client that trusts the certificate reaches the server by every name, over TLS 1.3', async () => {
  const { cert_pem, key_pem } = generateTls(['venue.example'], Date.now())
  const tls = { cert: cert_pem, key: key_pem, minVersion: 772 }
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch: () => new Response('reached') })
  for (const host of ['localhost', '127.0.0.1']) {
    const answer = await fetch(`https://${host}:${server.port}/`, { tls: { ca: cert_pem } })
    expect(await answer.text()).toBe('reached')
  }
  const { cert_pem: other } = generateTls([], Date.now())
  await expect(
    fetch(`https://localhost:${server.port}/`, { tls: { ca: other }, keepalive: false }),
  ).rejects.toThrow()
  await server.stop(true)
})

test('a name that is neither DNS nor address is refused', () => {
  for (const name of ['', 'with space', 'UPPER.example', 'a/b', 'fe80::1']) {
    expect(() => generateTls([name], Date.now())).toThrow(RangeError)
  }
})

test('it starts in the past and ends in 90 days', () => {
  const now_ms = Date.UTC(2031, 0, 1)
  expect(generateTls([], now_ms).not_after_ms - now_ms).toBe(90 * 86_400_000)
})
