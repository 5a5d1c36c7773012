/** Makes the certificate request (PKCS #10) and the challenge certificate (RFC 8737) of ACME, and checks issued certificates. */
import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { concatBytes, equalBytes, utf8 } from '../../protocol/bytes'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { TlsMaterial } from '../contract'
import * as der from '../der'
import { KEY_PATHS } from '../key_paths'
import { CHAIN_CERTIFICATES_MAX } from '../limits'
import * as x509 from '../x509'
import { AcmeFailure } from './signed_requests'

const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'

/** DER of a certificate signing request (RFC 2986) for a P-256 key. The names are in the extension; the subject is empty. */
export function certificateRequest(names: readonly string[], key: KeyObject): Uint8Array {
  const extensions = der.sequence(x509.subjectAlternativeNames(names))
  const info = der.sequence(
    der.smallInteger(0),
    der.sequence(),
    x509.spkiOf(key),
    der.explicit(0, der.sequence(der.oid(EXTENSION_REQUEST), der.set(extensions))),
  )
  return x509.signedSequence(info, key)
}

const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const DAY_MS = 86_400_000

type ChallengeCertificate = { cert_pem: string; key_pem: string }

/** The certificate that answers a TLS-ALPN-01 challenge: it only proves control of the name. */
export function challengeCertificate(
  name: string,
  key_authorization: string,
  now_ms: number,
): ChallengeCertificate {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = { common_name: name.slice(0, 64), organization: 'ACME challenge' }
  const certificate = x509.issueCertificate({
    subject,
    issuer: subject,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial: x509.randomSerial(),
    not_before_ms: now_ms - DAY_MS,
    not_after_ms: now_ms + DAY_MS,
    extensions: [
      x509.basicConstraints(false),
      x509.keyUsage(0),
      x509.subjectAlternativeNames([name]),
      x509.extension(ACME_IDENTIFIER, true, der.octets(sha256(utf8(key_authorization)))),
    ],
  })
  return {
    cert_pem: pemOfDer(certificate, 'CERTIFICATE'),
    key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

export type IssuedCertificate = TlsMaterial & { not_before_ms: number; account_url: string }
/** As issued and as stored. */
type CertificateText = Pick<IssuedCertificate, 'cert_pem' | 'key_pem' | 'account_url'>

/**
 * Accepts a certificate only for our key and all our names, valid now.
 * @throws AcmeFailure `certificate` with `shape`, `key`, `names` or `time`.
 */
export function issuedCertificate(
  { cert_pem, key_pem, account_url }: CertificateText,
  names: readonly string[],
  now_ms: number,
): IssuedCertificate {
  const chain = derOfPem(cert_pem, 'CERTIFICATE')
  if (chain === undefined || chain.length === 0 || chain.length > CHAIN_CERTIFICATES_MAX)
    throw new AcmeFailure('certificate', 'shape')
  const leaf = parsed(chain[0]!)
  const spki = x509.spkiOf(createPrivateKey(key_pem))
  if (!equalBytes(x509.spkiOf(leaf.publicKey), spki)) throw new AcmeFailure('certificate', 'key')
  const certified = new Set((leaf.subjectAltName ?? '').split(', '))
  if (!names.every((name) => certified.has(`DNS:${name}`))) throw new AcmeFailure('certificate', 'names')
  const [not_before_ms, not_after_ms] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  // Also rejects dates that do not parse (NaN).
  if (!(not_before_ms < not_after_ms && now_ms < not_after_ms)) throw new AcmeFailure('certificate', 'time')
  return { cert_pem, key_pem, account_url, spki_sha256: sha256(spki), not_before_ms, not_after_ms }
}

function parsed(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der)
  } catch {
    throw new AcmeFailure('certificate', 'shape')
  }
}

const [NONCE_BYTES, TAG_BYTES] = [12, 16]

/** Stores certificate and key across restarts, sealed under a key of this app, because authorities limit issuance. */
export type SealedStore = {
  path: string
  /** 32 bytes, used only for this. */
  key: Uint8Array
  /** Authenticated with the file, like `names`: it does not open for others. */
  directory_url: string
  names: readonly string[]
}

/** AES-256-GCM with a random nonce; the file is replaced atomically. */
export function sealCertificate(store: SealedStore, certificate: IssuedCertificate): void {
  const nonce = randomBytes(NONCE_BYTES)
  const { cert_pem, key_pem, account_url } = certificate
  const cipher = createCipheriv('aes-256-gcm', store.key, nonce)
  cipher.setAAD(context(store))
  const sealed = concatBytes(
    cipher.update(utf8(JSON.stringify({ cert_pem, key_pem, account_url }))),
    cipher.final(),
  )
  mkdirSync(dirname(store.path), { recursive: true, mode: 0o700 })
  writeFileSync(`${store.path}.new`, concatBytes(nonce, sealed, cipher.getAuthTag()), { mode: 0o600 })
  renameSync(`${store.path}.new`, store.path)
}

/** Undefined when the file is missing or damaged, was sealed for another directory or names, or the certificate has expired. */
export function unsealCertificate(store: SealedStore, now_ms: number): IssuedCertificate | undefined {
  if (!existsSync(store.path)) return undefined
  const bytes = new Uint8Array(readFileSync(store.path))
  if (bytes.length <= NONCE_BYTES + TAG_BYTES) return undefined
  try {
    const decipher = createDecipheriv('aes-256-gcm', store.key, bytes.subarray(0, NONCE_BYTES))
    decipher.setAAD(context(store))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    const opened = concatBytes(decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final())
    return issuedCertificate(JSON.parse(Buffer.from(opened).toString('utf8')), store.names, now_ms)
  } catch (error) {
    if (error instanceof AcmeFailure || (error as Error).name === 'Error') return undefined
    throw error
  }
}

/** Additional authenticated data: the path of the sealing key, the directory and the names. */
function context({ directory_url, names }: SealedStore): Uint8Array {
  return utf8(JSON.stringify([KEY_PATHS.acme_certificate, directory_url, ...names]))
}
