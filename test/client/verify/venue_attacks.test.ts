/** A lying venue, or someone between it and the client, is rejected by the check that is there for it. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { VerificationFailed } from '../../../client/verified_venue'
import type { VerificationPolicy } from '../../../client/verify/policy'
import type { CheckName } from '../../../client/verify/transcript'
import { generateTls } from '../../../enclave/x509'
import { toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { Attestation, Info } from '../../../protocol/wire/public'
import { openSite, type Site } from '../../kit/verify/site'

let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterEach(() => site.restore())
afterAll(() => site.close())

async function failures(change: Partial<VerificationPolicy> = {}): Promise<CheckName[]> {
  try {
    await site.connect(change)
    return []
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    return error.transcript.checks.filter((check) => check.result === 'fail').map((check) => check.name)
  }
}

type Answer = (nonce: string | undefined) => Promise<string> | string
function alter(path: string, change: (honest: Answer) => Answer): void {
  site.answers.set(path, change(site.answers.get(path)!))
}
const alterAttestation = (change: (attestation: Attestation) => void) =>
  alter('/attestation', (honest) => async (nonce) => {
    const attestation = JSON.parse(await honest(nonce)) as Attestation
    change(attestation)
    return JSON.stringify(attestation)
  })
const alterInfo = (change: Partial<Info>) =>
  alter(
    '/info',
    (honest) => async () => JSON.stringify({ ...JSON.parse(await honest(undefined)), ...change }),
  )

describe('the machine behind the venue', () => {
  test('another manifest than the pinned one is refused', async () => {
    expect(await failures({ compose_hashes: ['00'.repeat(32)] })).toEqual(['compose_hash'])
    site.machine.agent.knobs.wrong_compose_hash = true
    expect(await failures()).toContain('compose_hash')
    site.machine.agent.knobs.wrong_compose_hash = false
  })
  test('a machine under debug, an outdated one, a revoked one and expired collateral are refused', async () => {
    const { knobs } = site.machine.agent
    for (const [knob, check] of [
      ['debug', 'machine'],
      ['out_of_date', 'platform'],
      ['revoked_pck', 'quote'],
      ['expired_collateral', 'collateral'],
    ] as const) {
      knobs[knob] = true
      expect(await failures()).toContain(check)
      knobs[knob] = false
    }
    expect(await failures()).toEqual([])
  })
  test('registers of another operating system are refused', async () => {
    const zero = '00'.repeat(48)
    expect(await failures({ registers: [{ mrtd: zero, rtmr0: zero, rtmr1: zero, rtmr2: zero }] })).toEqual([
      'os_image',
    ])
  })
})

describe('the event log', () => {
  const alterLog = (change: (events: Record<string, unknown>[]) => void) =>
    alterAttestation((attestation) => {
      const events = JSON.parse(attestation.event_log)
      change(events)
      attestation.event_log = JSON.stringify(events)
    })
  const at = (events: Record<string, unknown>[], name: string) =>
    events.findIndex((event) => event['event'] === name)
  const changes: Record<string, (events: Record<string, unknown>[]) => void> = {
    'an event left out': (events) => events.splice(0, 1),
    'an event twice': (events) => events.push(events.at(-1)!),
    'a second manifest behind the first': (events) =>
      events.splice(at(events, 'compose-hash') + 1, 0, {
        ...events[at(events, 'compose-hash')],
        event_payload: '00'.repeat(32),
      }),
    'another manifest in its place': (events) =>
      Object.assign(events[at(events, 'compose-hash')]!, { event_payload: '00'.repeat(32) }),
    'another order': (events) => events.reverse(),
    'another digest': (events) => Object.assign(events[0]!, { digest: '00'.repeat(48) }),
    'no events': (events) => events.splice(0),
    'an event of no register': (events) => Object.assign(events[0]!, { imr: 4 }),
  }
  for (const [name, change] of Object.entries(changes))
    test(`${name} is refused`, async () => {
      alterLog(change)
      expect(await failures()).toContain('registers')
    })
})

describe('the answer for this caller', () => {
  test('an old answer is refused: its nonce is another', async () => {
    const old = await site.answers.get('/attestation')!('11'.repeat(32))
    site.answers.set('/attestation', () => old)
    expect(await failures()).toEqual(expect.arrayContaining(['report_data', 'binding']))
  })
  test('the answer that was made for no nonce is refused', async () => {
    const plain = await site.answers.get('/attestation')!(undefined)
    site.answers.set('/attestation', () => plain)
    expect(await failures()).toContain('report_data')
  })
  test('the quote of another venue is refused, though it is genuine', async () => {
    const other = await openSite()
    try {
      site.answers.set('/attestation', other.answers.get('/attestation')!)
      const roots_pem = site.machine.agent.root_pem + other.machine.agent.root_pem
      expect((await failures({ roots_pem })).length).toBeGreaterThan(0)
    } finally {
      await other.close()
    }
  })
  const bindings: Record<string, (attestation: Attestation) => void> = {
    'a binding signature of another body': ({ binding }) => {
      binding.body = binding.body.slice(0, -2) + (binding.body.endsWith('00') ? '01' : '00')
    },
    'a certificate of another key': ({ binding }) => {
      binding.certificate = binding.certificate.replace(/.{2}$/, (last) => (last === '00' ? '01' : '00'))
    },
    'a statement key nobody certified': (attestation) => {
      attestation.binding.statement_key = attestation.tee_pubkey
    },
    'a malformed binding': ({ binding }) => {
      binding.signature = ''
    },
  }
  for (const [name, change] of Object.entries(bindings))
    test(`${name} is refused`, async () => {
      alterAttestation(change)
      expect(await failures()).toContain('binding')
    })
  test('another settlement key than the quoted one is refused', async () => {
    const other = 'So11111111111111111111111111111111111111112'
    alterAttestation((attestation) => {
      attestation.tee_pubkey = other
    })
    alterInfo({ tee_pubkey: other })
    expect(await failures()).toEqual(['report_data', 'binding'])
  })
  for (const [field, value, check] of [
    ['app_id', '00'.repeat(20), 'claims'],
    ['instance_id', '00'.repeat(20), 'claims'],
    ['compose_hash', '00'.repeat(32), 'compose_hash'],
    ['venue', '00'.repeat(32), 'binding'],
    ['epoch', 2, 'binding'],
    ['generation', 1, 'settlement_signer'],
    ['program_id', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
    ['config_account', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
    ['genesis_hash', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
  ] as const)
    test(`a false ${field} is refused`, async () => {
      alterInfo({ [field]: value })
      expect(await failures()).toContain(check)
    })
})

describe('the TLS key', () => {
  test('someone in between, who passes every answer on, is refused', async () => {
    site.swapTls(generateTls([], Date.now()))
    expect(await failures()).toEqual(['tls_key'])
  })
  test('someone in between who serves his own certificate as evidence is refused', async () => {
    const own = generateTls([], Date.now())
    site.swapTls(own)
    site.answers.set('/evidences/cert.pem', () => own.cert_pem)
    expect(await failures()).toEqual(['tls_key', 'evidence'])
    site.answers.set('/evidences/sha256sum.txt', () => checksumsOf(own.cert_pem))
    expect(await failures()).toEqual(['tls_key', 'evidence'])
  })
  test('a nonce that imitates evidence is refused: the second half of report_data tells', async () => {
    const own = generateTls([], Date.now())
    const checksums = checksumsOf(own.cert_pem)
    // The attacker asks for a genuine quote whose nonce is the hash that an evidence quote would carry.
    const imitation = await site.answers.get('/attestation')!(toHex(sha256(utf8(checksums))))
    site.swapTls(own)
    site.answers.set('/evidences/cert.pem', () => own.cert_pem)
    site.answers.set('/evidences/sha256sum.txt', () => checksums)
    site.answers.set('/evidences/quote.json', () => imitation)
    expect(await failures()).toEqual(['tls_key', 'evidence'])
  })
  test('evidence without a quote, with a false list or of another machine is refused', async () => {
    const honest = await site.answers.get('/evidences/sha256sum.txt')!(undefined)
    for (const list of ['', honest.trimEnd(), `${honest}${honest}`, honest.replace('cert', 'other')]) {
      site.answers.set('/evidences/sha256sum.txt', () => list)
      expect(await failures()).toEqual(['evidence'])
    }
    site.answers.set('/evidences/sha256sum.txt', () => honest)
    for (const quote of ['', '{}', '{"quote":"00"}']) {
      site.answers.set('/evidences/quote.json', () => quote)
      expect(await failures()).toEqual(['evidence'])
    }
  })
})

const checksumsOf = (cert_pem: string): string => `${toHex(sha256(utf8(cert_pem)))}  cert.pem\n`
