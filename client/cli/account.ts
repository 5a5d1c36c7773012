/** `tacit account`: the trader's own logins. Secrets are made here and go nowhere but into the trader's file. */
import { existsSync } from 'node:fs'
import { fromHex } from '../../protocol/bytes'
import { deriveAccountKey } from '../../protocol/notes/derive'
import type { VenueClient } from '../api/venue_client'
import type { VerifiedVenue } from '../verified_venue'
import { Refused } from '../verify/transcript'
import { newCredential, prepareRebind, revokeCredential } from '../wallet/account'
import { saveWallet } from '../wallet/wallet_file'
import { writeNew } from '../whole_file'
import type { Call, Verb } from './call'
import { UsageFault } from './command'

const MADE = '--seed-file FILE --out LOGIN [--kind trade|read] [--expires UNIX_S]'

export const ACCOUNT_VERBS: Readonly<Record<string, Verb>> = {
  'account request': {
    form: `[URL] ${MADE}`,
    reads: ['venue'],
    says: `makes a login in a file that only you have, and prints what the operator admits: the account key of the seed and a signed
  credential, no secret`,
    example: 'tacit account request --seed-file seed.hex --out login.json',
    run: async (call) => show(await makeCredential(call, await call.venue())),
  },
  'account credential': {
    form: `[URL] ${MADE}`,
    reads: ['venue', 'login'],
    says: 'makes another login of the account, by the login that it has',
    example:
      'tacit account credential --seed-file seed.hex --login login.json --out dashboard.json --kind read',
    async run(call) {
      const [venue, client] = await loggedIn(call)
      show(await client.setCredential(await makeCredential(call, venue)))
    },
  },
  'account revoke': {
    form: '[URL] --seed-file FILE --credential ID',
    reads: ['venue', 'login'],
    says: 'revokes a credential of the account',
    example: 'tacit account revoke --seed-file seed.hex --login login.json --credential ID',
    async run(call) {
      const credential_id = call.text('credential')
      if (fromHex(credential_id, 16) === undefined) throw new UsageFault('--credential is 32 hex digits')
      const [venue, client] = await loggedIn(call)
      const revoked = { credential_id, version: Date.now() }
      show(await client.setCredential(revokeCredential(accountSeed(call), idOf(venue), revoked)))
    },
  },
  'account rebind': {
    form: '[URL] [--key K]',
    reads: ['venue', 'login', 'wallet'],
    says: 'moves a trading key of the wallet to the account of the login, after its seed was lost',
    example: 'tacit account rebind --wallet wallet.json --login login.json',
    async run(call) {
      const wallet = call.walletToChange()
      const [venue, client] = await loggedIn(call)
      const account_id = await client.login()
      const request = prepareRebind(wallet, idOf(venue), call.count('key', 0), account_id)
      saveWallet(call.text('wallet'), wallet)
      show(await client.rebind(request))
    },
  },
  'account show': {
    form: '[URL]',
    reads: ['venue', 'login'],
    says: 'lists credentials, limits, each act of the operator and each login',
    example: 'tacit account show',
    run: async (call) => show(await (await loggedIn(call))[1].account()),
  },
}

const show = (value: unknown): void => console.log(JSON.stringify(value, null, 2))
const idOf = ({ info }: VerifiedVenue): Uint8Array => fromHex(info.venue, 32)!
async function loggedIn(call: Call): Promise<[VerifiedVenue, VenueClient]> {
  const venue = await call.venue()
  return [venue, call.client(venue)]
}

/** Writes the new login before its body leaves this command. */
async function makeCredential(call: Call, venue: VerifiedVenue) {
  const kind = call.text('kind', 'trade')
  if (kind !== 'trade' && kind !== 'read') throw new UsageFault('--kind is trade or read')
  const terms = { kind, version: Date.now(), expiry_s: call.count('expires', 0, 12) } as const
  const path = call.text('out')
  if (existsSync(path)) throw new Refused(`${path} exists: a login is never overwritten`)
  const { login, request } = await newCredential(accountSeed(call), idOf(venue), terms)
  writeNew(path, `${JSON.stringify(login, null, 2)}\n`, 0o600)
  return request
}

function accountSeed(call: Call): Uint8Array {
  return deriveAccountKey(call.seed('seed-file'))
}
