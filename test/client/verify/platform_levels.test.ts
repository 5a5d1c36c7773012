/** TCB levels: the worst finding counts, and the policy sets the level that suffices. */
import { describe, expect, test } from 'bun:test'
import { checkPlatform } from '../../../client/verify/checks/quote'
import { openCollateral, trustedRoots } from '../../../client/verify/tdx/collateral'
import { verifyGenuine } from '../../../client/verify/tdx/genuine_quote'
import { combineFindings, matchesMasked, type TcbStatus } from '../../../client/verify/tdx/platform'
import { concatBytes } from '../../../protocol/bytes'
import { CPU_SVN } from '../../../sandbox/enclave/machine'
import {
  collateralOf,
  makePki,
  NOW_MS,
  outcome,
  quoteOf,
  STRICT,
  withDocument,
} from '../../kit/verify/development_pki'
import { signAnyQuote } from '../../kit/verify/sign_any_quote'

type Level = { tcb: Record<string, unknown>; tcbStatus: string; advisoryIDs?: string[] }
type Levelled = { tcbLevels: Level[]; tdxModuleIdentities: (Levelled & { id: string; mrsigner: string })[] }

const pki = makePki()
const quote = quoteOf(pki)
const rightful = {
  pck: pki.keys.pck,
  chain: [pki.authorities.pck, pki.authorities.platform_authority, pki.authorities.root],
}
const changed = (document: 'tcb_info' | 'qe_identity', change: (value: Levelled) => void) =>
  outcome(
    pki,
    quote,
    withDocument(pki, document, (value) => change(value as unknown as Levelled)),
  )

describe('levels', () => {
  test('an outdated platform is refused, unless status and advisory are both tolerated', async () => {
    const old = quoteOf(pki, { out_of_date: true })
    const collateral = collateralOf(pki)
    const tolerant = { ...STRICT, tcb_statuses: ['UpToDate', 'OutOfDate'] as const }
    const judge = (advisories: string[]) =>
      outcome(pki, old, collateral, { ...tolerant, tcb_statuses: [...tolerant.tcb_statuses], advisories })
    expect(await outcome(pki, old, collateral)).toBe('TCB status OutOfDate is not allowed')
    expect(await judge([])).toBe('advisory DEVELOPMENT-ONLY-SA-00001 is not tolerated')
    expect(await judge(['DEVELOPMENT-ONLY-SA-00001'])).toBe('accepted')
  })
  test('check 1.3 states the status, its date and every advisory, or that there is none', async () => {
    const judge = async (advisoryIDs: string[]) => {
      const collateral = withDocument(pki, 'tcb_info', (value) => {
        for (const level of (value as unknown as Levelled).tcbLevels) Object.assign(level, { advisoryIDs })
      })
      const opened = await openCollateral(collateral, trustedRoots(pki.root_pem), NOW_MS)
      const genuine = await verifyGenuine(quote, opened, NOW_MS)
      const policy = { ...STRICT, advisories: ['INTEL-SA-1', 'INTEL-SA-2'] }
      return checkPlatform({ policy, established: { genuine, collateral: opened } } as never)
    }
    const { tcb_date, ...values } = await judge(['INTEL-SA-1', 'INTEL-SA-2'])
    expect(values).toEqual({
      tcb_status: 'UpToDate',
      advisories: 'INTEL-SA-1 INTEL-SA-2',
      tcb_evaluation_number: expect.stringMatching(/^\d+$/),
    })
    expect(tcb_date).toMatch(/^\d{4}-\d\d-\d\dT/)
    expect((await judge([]))['advisories']).toBe('none')
  })
  test('a platform below every level is refused', async () => {
    expect(await changed('tcb_info', (info) => info.tcbLevels.splice(0))).toMatch(/below every TCB level/)
    const raised = (field: 'sgxtcbcomponents' | 'tdxtcbcomponents', at: number, svn = 200) =>
      changed('tcb_info', (info) => {
        for (const { tcb } of info.tcbLevels) (tcb[field] as { svn: number }[])[at] = { svn }
      })
    for (const [at, svn] of CPU_SVN.entries()) {
      expect(await raised('sgxtcbcomponents', at, svn)).toBe('accepted')
      expect(await raised('sgxtcbcomponents', at, svn + 1)).toMatch(/below every/)
    }
    for (let at = 0; at < 16; at++) expect(await raised('sgxtcbcomponents', at)).toMatch(/below every/)
    // The module's two bytes are judged by its identity from major version 1 on.
    for (let at = 2; at < 16; at++) expect(await raised('tdxtcbcomponents', at)).toMatch(/below every/)
    for (let at = 0; at < 2; at++) expect(await raised('tdxtcbcomponents', at)).toBe('accepted')
    const pce = changed('tcb_info', (info) => {
      for (const { tcb } of info.tcbLevels) tcb['pcesvn'] = 200
    })
    expect(await pce).toMatch(/below every/)
  })
  test('a level of more or fewer than 16 components is refused', async () => {
    for (const field of ['sgxtcbcomponents', 'tdxtcbcomponents'])
      for (const change of [(svns: unknown[]) => svns.pop(), (svns: unknown[]) => svns.push({ svn: 0 })]) {
        const judged = changed('tcb_info', (info) => change(info.tcbLevels[1]!.tcb[field] as unknown[]))
        expect(await judged).toBe('a TCB level has not 16 components')
      }
  })
  test('a TDX module that is unknown, outdated or of another signer is refused', async () => {
    const modules = (change: (identities: Levelled['tdxModuleIdentities']) => void) =>
      changed('tcb_info', (info) => change(info.tdxModuleIdentities))
    expect(await modules((identities) => identities.splice(0))).toMatch(/does not know the TDX module/)
    expect(
      await changed('tcb_info', (info) => {
        delete (info as Partial<Levelled>).tdxModuleIdentities
      }),
    ).toMatch(/does not know/)
    const outdated = modules((identities) => {
      for (const identity of identities) identity.tcbLevels[0]!.tcb['isvsvn'] = 200
    })
    expect(await outdated).toMatch(/OutOfDate is not allowed/)
    const other = modules((identities) => {
      for (const identity of identities) identity.mrsigner = '01'.repeat(48)
    })
    expect(await other).toMatch(/another signer/)
  })
  test('signer and attributes of the TDX module are compared, also for major version 0', async () => {
    const judge = (change: (body: Uint8Array) => void) =>
      outcome(pki, signAnyQuote(quote, rightful, { body: change }), collateralOf(pki))
    for (const major of [0, 1]) {
      const with_major = (more: (body: Uint8Array) => void) =>
        judge((body) => {
          body[1] = major
          more(body)
        })
      expect(await with_major(() => {})).toBe('accepted')
      expect(await with_major((body) => body.fill(1, 64, 65))).toMatch(/another signer/)
      expect(await with_major((body) => body.fill(1, 112, 113))).toMatch(/other attributes/)
    }
  })
  test('both bytes of a module of major version 0 are judged by the platform levels', async () => {
    const major_0 = signAnyQuote(quote, rightful, { body: (body) => void body.fill(0, 1, 2) })
    for (let at = 0; at < 2; at++) {
      const raised = withDocument(pki, 'tcb_info', (value) => {
        for (const { tcb } of (value as unknown as Levelled).tcbLevels)
          (tcb['tdxtcbcomponents'] as { svn: number }[])[at] = { svn: 200 }
      })
      expect(await outcome(pki, major_0, raised)).toMatch(/below every/)
    }
  })
  test('an outdated or revoked quoting enclave makes the whole platform so', async () => {
    for (const status of ['OutOfDate', 'Revoked', 'SWHardeningNeeded']) {
      const judged = changed('qe_identity', (identity) => {
        identity.tcbLevels[0]!.tcbStatus = status
      })
      expect(await judged).toBe(`TCB status ${status} is not allowed`)
    }
    const revoked = withDocument(pki, 'qe_identity', (value) => {
      ;(value as unknown as Levelled).tcbLevels[0]!.tcbStatus = 'Revoked'
    })
    const lax = { ...STRICT, tcb_statuses: ['Revoked'] as unknown as ['UpToDate'] }
    expect(await outcome(pki, quote, revoked, lax)).toBe('TCB status Revoked is not allowed')
  })
  test('a quoting enclave of another product, attributes or miscselect than its identity is refused', async () => {
    const identity = (change: object) => changed('qe_identity', (value) => Object.assign(value, change))
    expect(await identity({ isvprodid: 3 })).toMatch(/another product/)
    expect(await identity({ miscselect: '01000000', miscselectMask: 'ff'.repeat(4) })).toMatch(/miscselect/)
    expect(await identity({ attributes: '00'.repeat(16), attributesMask: 'ff'.repeat(16) })).toMatch(
      /other attributes/,
    )
  })
  test('a status Intel does not define is refused, also when the policy could not know it', async () => {
    const judged = changed('tcb_info', (info) => {
      info.tcbLevels[0]!.tcbStatus = 'Fine'
    })
    expect(await judged).toBe('unknown TCB status')
  })
  test('a machine that TD 1.5 says was launched under an old platform is refused', async () => {
    const launched_old = quote.slice(48, 64)
    launched_old[2] = 2
    const old_launch = signAnyQuote(quote, rightful, {
      body: (body) => body.set(launched_old, 0),
      td_15: concatBytes(quote.slice(48, 64), new Uint8Array(48)),
    })
    const old_now = signAnyQuote(quote, rightful, { td_15: concatBytes(launched_old, new Uint8Array(48)) })
    for (const bytes of [old_launch, old_now])
      expect(await outcome(pki, bytes, collateralOf(pki))).toMatch(/OutOfDate/)
  })
})

describe('the policy', () => {
  test('an evaluation older than asked is refused', async () => {
    const judge = (tcb_evaluation_min: number) =>
      outcome(pki, quote, collateralOf(pki), { ...STRICT, tcb_evaluation_min })
    expect(await judge(18)).toBe('accepted')
    expect(await judge(19)).toMatch(/evaluation is older/)
    // The lower of both documents counts.
    for (const document of ['tcb_info', 'qe_identity'] as const) {
      const older = withDocument(pki, document, (value) =>
        Object.assign(value, { tcbEvaluationDataNumber: 17 }),
      )
      expect(await outcome(pki, quote, older, { ...STRICT, tcb_evaluation_min: 17 })).toBe('accepted')
      expect(await outcome(pki, quote, older, { ...STRICT, tcb_evaluation_min: 18 })).toMatch(/older/)
    }
  })
  test('a physical machine the policy does not name is refused', async () => {
    const judge = (ppids: string[]) => outcome(pki, quote, collateralOf(pki), { ...STRICT, ppids })
    expect(await judge(['00'.repeat(16)])).toMatch(/physical machine/)
    expect(await judge([])).toMatch(/physical machine/)
  })
  test('collateral of another platform or PCE is refused', async () => {
    const judge = (change: object) =>
      outcome(
        pki,
        quote,
        withDocument(pki, 'tcb_info', (value) => Object.assign(value, change)),
      )
    expect(await judge({ fmspc: '00'.repeat(6) })).toMatch(/FMSPC/)
    expect(await judge({ pceId: '0001' })).toMatch(/PCE/)
  })
})

test('an expected bit outside the mask matches nothing', () => {
  const byte = (value: number) => Uint8Array.of(value)
  expect(matchesMasked(byte(3), byte(1), byte(1))).toBe(true)
  expect(matchesMasked(byte(3), byte(1), byte(3))).toBe(false)
  const two = Uint8Array.of(1, 1)
  for (const [value, mask, expected] of [
    [two, byte(1), byte(1)],
    [byte(1), two, byte(1)],
    [byte(1), byte(1), two],
  ] as const)
    expect(matchesMasked(value, mask, expected)).toBe(false)
})

test("findings combine to the worst, and an outdated part keeps the configuration's finding", () => {
  const finding = (status: TcbStatus) => ({ status, tcb_date: '2025-01-01T00:00:00Z', advisories: [status] })
  const combined = (a: TcbStatus, b: TcbStatus) => {
    const one = combineFindings([finding(a), finding(b)])
    expect(combineFindings([finding(b), finding(a)]).status).toBe(one.status)
    expect(one.advisories.length).toBe(a === b ? 1 : 2)
    return one.status
  }
  expect(combined('UpToDate', 'UpToDate')).toBe('UpToDate')
  expect(combined('UpToDate', 'SWHardeningNeeded')).toBe('SWHardeningNeeded')
  expect(combined('ConfigurationNeeded', 'SWHardeningNeeded')).toBe('ConfigurationAndSWHardeningNeeded')
  expect(combined('OutOfDate', 'SWHardeningNeeded')).toBe('OutOfDate')
  expect(combined('OutOfDate', 'ConfigurationNeeded')).toBe('OutOfDateConfigurationNeeded')
  expect(combined('OutOfDate', 'ConfigurationAndSWHardeningNeeded')).toBe('OutOfDateConfigurationNeeded')
  expect(combined('Revoked', 'OutOfDateConfigurationNeeded')).toBe('Revoked')
  const dates = ['2025-01-01T00:00:00Z', '2023-01-01T00:00:00Z', '2024-01-01T00:00:00Z']
  const [first, ...rest] = dates.map((tcb_date) => ({ ...finding('UpToDate'), tcb_date }))
  expect(combineFindings([first!, ...rest]).tcb_date).toBe(dates[1]!)
})
