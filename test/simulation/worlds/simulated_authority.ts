/** An authority of public certificates (RFC 8555) that finds every name proved, and the operator's API for DNS records. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { issueCertificate, randomSerial, subjectAlternativeNames } from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/x509/certificate'
import type { AcmeConfig } from '../../../server/settings/config'
import type { Answer, Network } from './network'

const [AUTHORITY, DNS] = ['authority.test', 'dns.test']
/** So short that a start long after the one before has its certificate renewed. */
const LIFE_MS = 20_000
/** Of a P-256 key, before its point. */
const SPKI = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')

export const acmeOf = (challenge: AcmeConfig['challenge']): AcmeConfig => ({
  ...{ directory_url: `https://${AUTHORITY}/directory`, challenge, root: '' },
  dns: { url: `https://${DNS}`, record_name: '', credentials: 'user:password' },
})

/** `asked`: how often since its certificate was issued. */
type Order = { names: string[]; proved: boolean; certificate: string | undefined; asked: number }

export function simulateAuthority({ hosts }: Pick<Network, 'hosts'>, unixMs: () => number): void {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const orders: Order[] = []
  let nonces = 0
  const issue = ({ names }: Order, csr: Buffer): string => {
    const at = csr.indexOf(SPKI)
    const key = csr.subarray(at, at + SPKI.length + 65)
    const name = { common_name: names[0]!, organization: 'simulated' }
    const certificate = issueCertificate({
      ...{ subject: name, issuer: name, issuer_key: privateKey, serial: randomSerial() },
      subject_key: createPublicKey({ key, format: 'der', type: 'spki' }),
      ...{ not_before_ms: unixMs() - 1_000, not_after_ms: unixMs() + LIFE_MS },
      extensions: [subjectAlternativeNames(names)],
    })
    return pemOfDer(certificate, 'CERTIFICATE')
  }
  const url = (path: string) => `https://${AUTHORITY}/${path}`
  const answer = (path: string, body: string): [content: object | string, location?: string] => {
    const [, step, number = 0] = path.split('/') as [string, string, number?]
    if (step === 'directory')
      return [{ newNonce: url('nonce'), newAccount: url('account'), newOrder: url('new-order') }]
    if (step === 'nonce') return ['']
    if (step === 'account') return [{ status: 'valid' }, url('account/1')]
    const { payload } = JSON.parse(body) as { payload: string }
    const decoded = Buffer.from(payload, 'base64url')
    const sent = decoded.length === 0 ? {} : JSON.parse(decoded.toString())
    if (step === 'new-order') {
      const names = (sent as { identifiers: { value: string }[] }).identifiers.map(({ value }) => value)
      const id = orders.push({ names, proved: false, certificate: undefined, asked: 0 }) - 1
      const next = { authorizations: [url(`proof/${id}`)], finalize: url(`finalize/${id}`) }
      return [{ status: 'pending', ...next }, url(`order/${id}`)]
    }
    const order = orders[Number(number)]!
    if (step === 'challenge') order.proved = true
    if (step === 'finalize') order.certificate = issue(order, Buffer.from(sent.csr, 'base64url'))
    if (step === 'certificate') return [order.certificate!]
    if (step === 'proof') {
      const challenge = { url: url(`challenge/${number}`), token: 'a'.repeat(32) }
      const challenges = ['dns-01', 'tls-alpn-01'].map((type) => ({ type, ...challenge }))
      const identifier = { type: 'dns', value: order.names[0] }
      return [{ status: order.proved ? 'valid' : 'pending', identifier, challenges }]
    }
    // Every second order takes its time.
    const is_late = order.certificate !== undefined && Number(number) % 2 === 0 && order.asked++ < 2
    const status = is_late ? 'processing' : order.certificate ? 'valid' : order.proved ? 'ready' : 'pending'
    return [{ status, certificate: url(`certificate/${number}`) }]
  }
  hosts.set(AUTHORITY, (path, { body }): Answer => {
    const [content, location] = answer(path, String(body))
    const headers = { 'replay-nonce': `nonce-${nonces++}`, ...(location && { location }) }
    return { status: 200, content: typeof content === 'string' ? content : JSON.stringify(content), headers }
  })
  hosts.set(DNS, () => ({ status: 200, content: '' }))
}
