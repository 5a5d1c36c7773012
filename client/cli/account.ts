/** Runs `tacit account`: the trader's own logins. Secrets are made here and go nowhere but into the trader's file. */
import { existsSync, writeFileSync } from 'node:fs'
import { fromHex } from '../../protocol/bytes'
import { deriveAccountKey } from '../../protocol/notes/derive'
import type { VerifiedVenue } from '../verified_venue'
import { Refused } from '../verify/transcript'
import { newCredential, prepareRebind, revokeCredential } from '../wallet/account'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { Options, UsageFault } from './command'
import { clientOf, VENUE_TEXTS, withVenue } from './venue_login'

export const ACCOUNT_USAGE = `       tacit account request    VENUE --seed-file FILE --out LOGIN [--kind trade|read] [--expires UNIX_S]
       tacit account credential VENUE --seed-file FILE --login LOGIN --out NEW_LOGIN [--kind trade|read] [--expires UNIX_S]
       tacit account revoke     VENUE --seed-file FILE --login LOGIN --credential ID
       tacit account rebind     VENUE --wallet FILE --login LOGIN [--key K]
       tacit account show       VENUE --login LOGIN
         VENUE is URL [--policy FILE] [--collateral FILE] [--manifest FILE] and is verified first. 'request' prints what the
         operator admits: the account key of the seed and a signed credential, no secret. LOGIN is a file that only you have`

const TEXTS = [
  ...VENUE_TEXTS,
  ...(['seed-file', 'wallet', 'out'] as const),
  ...(['kind', 'expires', 'credential', 'key'] as const),
] as const
type AccountOptions = Options<(typeof TEXTS)[number]>
type Call = { options: AccountOptions; venue: VerifiedVenue; venue_id: Uint8Array }

const VERBS: Record<string, (call: Call) => Promise<unknown>> = {
  request: makeCredential,
  credential: async (call) => clientOf(call.options, call.venue).setCredential(await makeCredential(call)),
  async revoke(call) {
    const { options, venue_id } = call
    const credential_id = options.text('credential')
    if (fromHex(credential_id, 16) === undefined) throw new UsageFault('--credential is 32 hex digits')
    const revoked = { credential_id, version: Date.now() }
    return clientOf(call.options, call.venue).setCredential(
      revokeCredential(accountSeed(options), venue_id, revoked),
    )
  },
  async rebind(call) {
    const { options, venue_id } = call
    const path = options.text('wallet')
    const wallet = loadWallet(path)
    if (wallet === undefined) throw new Refused(`there is no wallet at ${path}`)
    const client = clientOf(call.options, call.venue)
    const account_id = await client.login()
    const request = prepareRebind(wallet, venue_id, options.count('key', 0), account_id)
    saveWallet(path, wallet)
    return client.rebind(request)
  },
  show: async (call) => clientOf(call.options, call.venue).account(),
}

/** @throws UsageFault, Refused, EvidenceUnavailable, or an Error that says what the venue answered */
export async function runAccount(args: string[]): Promise<void> {
  const options: AccountOptions = new Options(args, { texts: TEXTS, words: 2 })
  const [verb = '', url = ''] = options.words
  if (!Object.hasOwn(VERBS, verb)) throw new UsageFault()
  await withVenue(url, options, async (venue) => {
    const venue_id = fromHex(venue.info.venue, 32)!
    console.log(JSON.stringify(await VERBS[verb]!({ options, venue, venue_id }), null, 2))
  })
}

/** Writes the new login before its body leaves this command. */
async function makeCredential({ options, venue_id }: Call) {
  const kind = options.text('kind', 'trade')
  if (kind !== 'trade' && kind !== 'read') throw new UsageFault('--kind is trade or read')
  const terms = { kind, version: Date.now(), expiry_s: options.count('expires', 0, 12) } as const
  const path = options.text('out')
  if (existsSync(path)) throw new Refused(`${path} exists: a login is never overwritten`)
  const { login, request } = await newCredential(accountSeed(options), venue_id, terms)
  writeFileSync(path, `${JSON.stringify(login, null, 2)}\n`, { flag: 'wx', mode: 0o600 })
  return request
}

function accountSeed(options: AccountOptions): Uint8Array {
  return deriveAccountKey(options.seed('seed-file'))
}
