/** Opens a venue for a command that needs a login: verified first, then logged in from the trader's file. */
import { fromHex } from '../../protocol/bytes'
import { type Login, VenueClient, VenueProblem, WrongAccount } from '../api/venue_client'
import { connect } from '../connect'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { Refused } from '../verify/transcript'
import { type Options, readInputText, UsageFault } from './command'
import { requireOwn } from './options'
import { connectOptions } from './verify'

export const VENUE_TEXTS = ['policy', 'collateral', 'manifest', 'login'] as const
type VenueOptions = Options<(typeof VENUE_TEXTS)[number]>

/**
 * Runs `use` on the verified venue.
 * @throws UsageFault for another URL, Refused for what the venue or a verification says, EvidenceUnavailable
 */
export async function withVenue<T>(
  url: string,
  options: VenueOptions,
  use: (venue: VerifiedVenue) => Promise<T>,
): Promise<T> {
  if (!url.startsWith('https://') || !URL.canParse(url)) throw new UsageFault()
  const policy = options.file('policy')
  try {
    const terms = policy === undefined ? BARE_POLICY : parsePolicy(policy)
    return await use(await connect(url, terms, connectOptions(options)))
  } catch (error) {
    if (error instanceof VerificationFailed || error instanceof VenueProblem || error instanceof WrongAccount)
      throw new Refused(error.message)
    throw error
  }
}

export function clientOf(options: VenueOptions, venue: VerifiedVenue): VenueClient {
  const path = options.text('login')
  requireOwn(path)
  try {
    const login = Object(JSON.parse(readInputText(path))) as Login
    if (fromHex(String(login.account_id), 32) === undefined)
      throw new Refused(`${path} does not name its account: make a login with 'tacit account request'`)
    return new VenueClient(venue, login)
  } catch (error) {
    if (error instanceof SyntaxError) throw new Refused(`${path} does not hold a login`)
    throw error
  }
}
