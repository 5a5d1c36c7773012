/** Checks 7.1 and 7.2: which physical machine it is, and who says where it is. */
import { decodeBase58 } from '../../../protocol/base58'
import { decodeLocation } from '../../../protocol/bodies/location'
import { equalBytes, fromAnyHex, toHex } from '../../../protocol/bytes'
import { isSignedByEd25519 } from '../ed25519_web'
import type { LocationAuthority } from '../policy'
import { Refused, reasonOf, requireThat } from '../transcript'
import {
  type CheckValues,
  established,
  type RunCheck,
  Skipped,
  type VerificationCase,
} from './verification_case'

/** Check 7.1: the machine is one of the policy's list. */
export const checkMachineList: RunCheck = (verification) => {
  const ppid = toHex(established(verification, 'genuine').platform.ppid)
  const { ppids } = verification.policy
  if (ppids === undefined) throw new Skipped('machines_unpinned', `; this one is ${ppid}`)
  requireThat(ppids.includes(ppid), `machine ${ppid} is not listed`)
  return { ppid }
}

/** Check 7.2: enough authorities of the policy vouch for this machine and instance. */
export const checkLocation: RunCheck = async (verification) => {
  const { location } = verification.policy
  const { ppid } = established(verification, 'genuine').platform
  established(verification, 'claims')
  if (location === undefined) throw new Skipped('location_unnamed', `; the machine is ${toHex(ppid)}`)
  const vouched: CheckValues = {}
  const refusals: string[] = []
  for (const authority of location.authorities)
    try {
      vouched[authority.name] = await vouch(verification, authority)
    } catch (error) {
      refusals.push(`${authority.name}: ${reasonOf(error)}`)
    }
  requireThat(
    Object.keys(vouched).length >= location.minimum,
    `${Object.keys(vouched).length} of ${location.minimum} authorities vouch (${refusals.join('; ')})`,
  )
  return vouched
}

/** @returns level and site. @throws Refused when the authority does not vouch */
async function vouch(verification: VerificationCase, authority: LocationAuthority): Promise<string> {
  const { ppid } = established(verification, 'genuine').platform
  if ('ppids' in authority) {
    requireThat(authority.ppids.includes(toHex(ppid)), 'the machine is not on its list')
    return 'pinned list'
  }
  const { bundle, now_ms } = verification
  const answer = bundle.location.find(({ authority: name }) => name === authority.name)
  if (answer === undefined) throw new Refused(bundle.missing.location ?? 'it was not asked')
  const [body, signature] = [fromAnyHex(answer.body), fromAnyHex(answer.signature)]
  const key = decodeBase58(authority.key, 32)
  if (body === undefined || signature === undefined || key === undefined)
    throw new Refused('its statement is malformed')
  requireThat(await isSignedByEd25519(signature, body, key), 'its statement is not signed by its key')
  const statement = decodeLocation(body)
  const { instance_id } = established(verification, 'claims')
  const instance = instance_id.length === 0 ? new Uint8Array(20) : instance_id
  requireThat(equalBytes(statement.ppid, ppid), 'its statement is about another machine')
  requireThat(equalBytes(statement.instance_id, instance), 'its statement is about another instance')
  requireThat(authority.levels.includes(statement.level), `its statement has level ${statement.level}`)
  const now_s = BigInt(Math.floor(now_ms / 1000))
  requireThat(now_s >= statement.issued_s, 'its statement is from the future')
  requireThat(now_s <= statement.expires_s, 'its statement has expired')
  return `${statement.level} ${statement.site}`
}
