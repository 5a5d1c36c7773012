/** Encrypts to one recipient in the format of age (age-encryption.org/v1), whose own command reads these files too. */
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption'

/** X25519, or ML-KEM-768 with X25519. */
const RECIPIENT = /^age1(pq1)?[02-9ac-hj-np-z]+$/
const IDENTITY = /^AGE-SECRET-KEY-(PQ-)?1[02-9AC-HJ-NP-Z]+$/m

/** Whether a text is a recipient that files can be encrypted to. */
export function isAgeRecipient(text: string): boolean {
  if (!RECIPIENT.test(text)) return false
  try {
    new Encrypter().addRecipient(text)
    return true
  } catch {
    return false
  }
}

export function encryptToRecipient(recipient: string, plain: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const encrypter = new Encrypter()
  encrypter.addRecipient(recipient)
  return encrypter.encrypt(plain) as Promise<Uint8Array<ArrayBuffer>>
}

/** Undefined when the file is for another key, or any part of it was changed. */
export async function decryptWithIdentity(
  identity: string,
  file: Uint8Array,
): Promise<Uint8Array | undefined> {
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  return await decrypter.decrypt(file).catch(() => undefined)
}

/** The identity in the text of a key file, as `age-keygen` writes them too; undefined without one. */
export function readAgeIdentity(text: string): string | undefined {
  const identity = IDENTITY.exec(text)?.[0]
  try {
    if (identity !== undefined) new Decrypter().addIdentity(identity)
    return identity
  } catch {
    return undefined
  }
}

/** The text of a new key file, and the recipient that belongs to it. */
export async function newAgeKey(): Promise<{ file: string; recipient: string }> {
  const identity = await generateX25519Identity()
  const recipient = await ageRecipientOf(identity)
  return { file: `# public key: ${recipient}\n${identity}\n`, recipient }
}

/** The recipient that files for this identity are encrypted to. */
export const ageRecipientOf = (identity: string): Promise<string> => identityToRecipient(identity)
