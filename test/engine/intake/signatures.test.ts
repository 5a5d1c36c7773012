/** Signatures of commands get equal verdicts from compiled code and, on machines without, from the platform. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { claimsHold } from '../../../engine/intake/context'
import { ED25519_VECTORS } from '../../../native/ed25519_vectors'

const claims = ED25519_VECTORS.map(({ signature, message, public_key }) => ({
  signature,
  body: message,
  trading_key: public_key,
}))
const published = ED25519_VECTORS.map(({ holds }) => holds)
const valid = claims.filter((_, at) => published[at])

test('a command is valid when each of its signatures is', () => {
  expect(claims.map((claim) => claimsHold([claim]))).toEqual(published)
  expect(claimsHold(valid)).toBe(true)
  const invalid = claims.filter((_, at) => !published[at])
  for (const claim of invalid) expect(claimsHold([...valid, claim])).toBe(false)
})

test('where no library is built for the machine, the platform verifies', () => {
  const folder = join(import.meta.dir, '../../..')
  const script = `
    Object.defineProperty(process, 'arch', { value: 'arm64' })
    const { loadNativeEd25519 } = await import('${folder}/native/load_ed25519')
    const { ED25519_VECTORS } = await import('${folder}/native/ed25519_vectors')
    const { claimsHold } = await import('${folder}/engine/intake/context')
    const verdicts = ED25519_VECTORS.map(({ signature, message, public_key }) =>
      claimsHold([{ signature, body: message, trading_key: public_key }]))
    console.log(JSON.stringify({ compiled: loadNativeEd25519() !== undefined, verdicts }))`
  const { stdout } = Bun.spawnSync([process.execPath, '-e', script])
  expect(JSON.parse(stdout.toString())).toEqual({ compiled: false, verdicts: published })
})
