/** The verifier runs where there is no Bun and no Node module: in a browser, and in Node. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CHECKS_OF_LEADER } from '../../../client/verify/transcript'
import { openSite } from '../../kit/verify/site'

const ENTRY = join(import.meta.dir, '../../../client/verify/index.ts')

async function bundledVerifier(minify = false): Promise<string> {
  const built = await Bun.build({ entrypoints: [ENTRY], target: 'browser', format: 'esm', minify })
  return built.outputs[0]!.text()
}

test('the bundle for a browser takes nothing from Bun or Node', async () => {
  const code = await bundledVerifier()
  expect(code).not.toMatch(/node:|\bBun\.|\bBuffer\b|process\./)
})

test('the verifier alone is at most 60 KB, minified and compressed', async () => {
  const bytes = Bun.gzipSync(Buffer.from(await bundledVerifier(true)), { level: 9 }).length
  expect(bytes).toBeLessThanOrEqual(60 * 1_024)
})

const node = Bun.which('node')
if (node === null) console.log('skipped: there is no Node on this machine')

test.skipIf(node === null)('Node judges the same evidence as Bun does', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-portable-'))
  const site = await openSite()
  try {
    const { evidence, transcript } = await site.connect()
    const path = join(folder, 'run.mjs')
    writeFileSync(join(folder, 'verifier.mjs'), await bundledVerifier())
    writeFileSync(
      path,
      `import { judgeEvidence, parsePolicy } from './verifier.mjs'
       globalThis.crypto ??= (await import('node:crypto')).webcrypto
       console.log(JSON.stringify(await judgeEvidence(${JSON.stringify(evidence)}, parsePolicy(${JSON.stringify(JSON.stringify(site.policy))}), 'live')))`,
    )
    const child = Bun.spawn([node!, path], { stdout: 'pipe', stderr: 'inherit' })
    const judged = JSON.parse(await new Response(child.stdout).text())
    expect(judged).toEqual(JSON.parse(JSON.stringify(transcript)))
    expect(judged.checks.length).toBe(CHECKS_OF_LEADER.length)
  } finally {
    await site.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
