/** Checks 7.1 and 7.2: which physical machine it is, and who says where it is. */
import { decodeBase58 } from '../../../protocol/base58'
import { decodeLocation, decodeLogHead, type LocationLevel } from '../../../protocol/bodies/statements'
import { equalBytes, fromAnyHex, fromHex, toHex } from '../../../protocol/bytes'
import { extendsTree, isInTree, treeLeaf } from '../../../protocol/rfc6962_tree'
import { isSignedByEd25519 } from '../ed25519_web'
import type { LogProof } from '../evidence_bundle'
import type { LocationAuthority, LocationLog } from '../policy'
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
  if (body === undefined || signature === undefined) throw new Refused('its statement is malformed')
  const key = decodeBase58(authority.key, 32)!
  requireThat(await isSignedByEd25519(signature, body, key), 'its statement is not signed by its key')
  const statement = decodeLocation(body)
  const { instance_id } = established(verification, 'claims')
  const instance = instance_id.length === 0 ? new Uint8Array(20) : instance_id
  const levels = 'log' in authority ? INSPECTED : authority.levels
  requireThat(equalBytes(statement.ppid, ppid), 'its statement is about another machine')
  requireThat(equalBytes(statement.instance_id, instance), 'its statement is about another instance')
  requireThat(levels.includes(statement.level), `its statement has level ${statement.level}`)
  const now_s = BigInt(Math.floor(now_ms / 1000))
  requireThat(now_s >= statement.issued_s, 'its statement is from the future')
  requireThat(now_s <= statement.expires_s, 'its statement has expired')
  const place = `${statement.level} ${statement.site}`
  if (!('log' in authority)) return place
  return `${place}, ${await requireLogged(treeLeaf(body, signature), answer.log, authority.log)}`
}

/** A log has statements of inspections only. */
const INSPECTED: readonly LocationLevel[] = ['inspected']

/** @returns place in the log. @throws Refused unless the log has the leaf, at a head that extends the pinned one */
async function requireLogged(
  leaf: Uint8Array,
  proof: LogProof | undefined,
  pinned: LocationLog,
): Promise<string> {
  if (proof === undefined) throw new Refused('it gives no proof of its log')
  const [head, signature] = [fromAnyHex(proof.head), fromAnyHex(proof.signature)]
  const [path, consistency] = [readNodes(proof.path), readNodes(proof.consistency)]
  if (!head || !signature || !path || !consistency) throw new Refused('the proof of its log is malformed')
  const key = decodeBase58(pinned.key, 32)!
  requireThat(await isSignedByEd25519(signature, head, key), 'the head of its log is not signed by the log')
  const current = decodeLogHead(head)
  const seen = { size: BigInt(pinned.size), root: fromHex(pinned.root, 32)! }
  requireThat(extendsTree(seen, current, consistency), 'its log does not extend the pinned head')
  requireThat(isInTree(leaf, BigInt(proof.index), current, path), 'its statement is not in its log')
  return `number ${proof.index} of ${current.size}`
}

/** The nodes of a path; undefined unless it is hex of whole nodes. */
function readNodes(text: string): Uint8Array[] | undefined {
  const bytes = fromAnyHex(text)
  if (bytes === undefined || bytes.length % 32 !== 0) return undefined
  return Array.from({ length: bytes.length / 32 }, (_, at) => bytes.subarray(32 * at, 32 * at + 32))
}
