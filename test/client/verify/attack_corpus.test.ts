/**
 * Runs the corpus of attacks: each is a venue that differs from an honest one in one point, judged by `tacit verify`, and must
 * fail the check that exists for this point. Prints the corpus figure.
 */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runVerify } from '../../../client/cli/verify'
import type { VerificationPolicy } from '../../../client/verify/policy'
import type { Transcript } from '../../../client/verify/transcript'
import { forgeLog } from '../../kit/verify/forged_log'
import { type Lie, lie, mrConfigId } from '../../kit/verify/lying_machine'
import { openSite, type Site } from '../../kit/verify/site'

type Attack = {
  name: string
  /** Number of the check that must fail. */
  check: string
  lie?: Lie
  /** Demands beside those that the honest venue fulfils. */
  policy?: Partial<VerificationPolicy>
}

const folder = mkdtempSync(join(tmpdir(), 'tacit-corpus-'))
let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterEach(() => site.restore())
afterAll(async () => {
  await site.close()
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, value: unknown): string {
  const path = join(folder, name)
  writeFileSync(path, JSON.stringify(value))
  return path
}

/** `tacit verify` in this process. */
async function verify(change: Partial<VerificationPolicy> = {}): Promise<{ code: number; said: Transcript }> {
  const policy = write('policy.json', { ...site.policy, ...change })
  const collateral = write('collateral.json', site.machine.agent.collateral())
  const printed = spyOn(console, 'log').mockImplementation(() => {})
  try {
    const code = await runVerify([site.url, '--policy', policy, '--collateral', collateral, '--json'])
    return { code, said: JSON.parse(String(printed.mock.calls[0]![0])) as Transcript }
  } finally {
    printed.mockRestore()
  }
}

const failed = ({ checks }: Transcript): string[] =>
  checks.filter(({ result }) => result === 'fail').map(({ number }) => number)

/** A machine of another build whose boot events of register 3 are shown under this type. */
const forged = (type: number): Lie => ({
  log: (honest) => forgeLog(honest, type),
  quote: { body: mrConfigId() },
})

const ATTACKS: Attack[] = [
  ...[0, 1, 6, 0x8000_0007, 0xffff_ffff].map((type) => ({
    name: `boot events relabelled as type ${type}`,
    check: '2.1',
    lie: forged(type),
  })),
]

test('the honest venue is accepted', async () => {
  const { code, said } = await verify()
  expect(failed(said)).toEqual([])
  expect(code).toBe(0)
})

describe('corpus', () => {
  let refused = 0
  for (const attack of ATTACKS)
    test(attack.name, async () => {
      if (attack.lie !== undefined) lie(site, attack.lie)
      const { code, said } = await verify(attack.policy)
      expect(failed(said)).toContain(attack.check)
      expect(code).toBe(1)
      refused++
    })
  afterAll(() => console.log(`attack corpus: ${refused} of ${ATTACKS.length} attacks refused`))
})
