/** Opens a session for one command, up to date with the venue, and says how a session failed. */
import type { AccountEvent } from '../../protocol/wire/trading'
import { type Login, VenueProblem, WrongAccount } from '../api/venue_client'
import { OtherVenue } from '../session/live_venue'
import { Session } from '../session/session'
import { NoNote, SessionEnded } from '../session/session_options'
import { InexactValue } from '../session/units'
import { type ConnectOptions, VerificationFailed } from '../verified_venue'
import { parsePolicy, type VerificationPolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral_form'
import { InUse } from '../wallet/file_lock'
import { NotAWallet, WalletChanged, WalletLocked } from '../wallet/wallet_file'
import { type Failure, InputFault, Options, readInputText } from './command'
import { type Config, PLACES, type Place, readConfig } from './config'
import { passwordIn, requireOwn } from './options'

export type TradeOptions = Options<Place | 'config' | TradeText, TradeFlag>
const TRADE_TEXTS = [
  ...(['min-fill', 'expires', 'key', 'symbol', 'after', 'status', 'until'] as const),
] as const
type TradeText = (typeof TRADE_TEXTS)[number]
const TRADE_FLAGS = ['ioc', 'fok', 'json', 'no-merge'] as const
type TradeFlag = (typeof TRADE_FLAGS)[number]

export function tradeOptions(args: readonly string[], words: number): TradeOptions {
  return new Options(args, { texts: [...PLACES, 'config', ...TRADE_TEXTS], flags: TRADE_FLAGS, words })
}

export const CODES = `exit code: 0 done, 1 refused by the venue or not covered by the notes, 2 the outcome is open: 'tacit settle' asks again,
3 the venue does not answer, 4 it is not the venue that the policy accepts, 64 usage or input, 74 a file cannot be written`

/** Runs `use` in a session whose wallet has every event that the venue had, and closes it. */
export async function withSession<T>(
  options: TradeOptions,
  use: (session: Session) => Promise<T>,
  event?: (event: AccountEvent) => void,
): Promise<T> {
  const config = readConfig(options)
  const login = loginIn(needed(config, 'login'))
  const password = config['password-file']
  // The demo account of this machine's venue belongs to no wallet.
  const account = config.account ?? (config.login?.endsWith('demo-login.json') ? login.account_id : undefined)
  const session = await Session.open({
    url: needed(config, 'url'),
    policy: policyOf(config),
    connect: connectOptions(config),
    login,
    ...(account === undefined ? {} : { account_id: account }),
    wallet: needed(config, 'wallet'),
    ...(password === undefined ? {} : { password: passwordIn(password) }),
    ...(event === undefined ? {} : { event }),
    ended: () => undefined,
  })
  try {
    await catchUp(session)
    return await use(session)
  } finally {
    session.close()
  }
}

/** Waits until the wallet has absorbed the events that the venue has now. */
async function catchUp(session: Session): Promise<void> {
  for (;;) {
    const { items } = await session.client.events({ after: session.wallet.state.seq, limit: 100 })
    const last = items.at(-1)
    if (last === undefined) return
    await session.until(({ state }) => state.seq >= last.seq || undefined)
  }
}

const MEANINGS: Partial<Record<Place, string>> = {
  url: "the venue's address; without it a venue that 'start' runs is looked for in ./data, or in --data FOLDER",
  login: "the file that 'tacit account request' wrote",
  wallet: "the wallet file; 'tacit wallet create' makes one",
}
function needed(config: Config, name: 'url' | 'login' | 'wallet'): string {
  const value = config[name]
  if (value === undefined) throw new InputFault(`--${name} is needed: ${MEANINGS[name]}`)
  if (name === 'url' && !(URL.canParse(value) && value.startsWith('https://')))
    throw new InputFault('--url is an https address')
  return value
}

function policyOf({ policy }: Config): VerificationPolicy {
  if (policy === undefined) throw new InputFault('--policy is needed: what you accept as this venue')
  return parsePolicy(readInputText(policy))
}
function connectOptions({ collateral, manifest }: Config): ConnectOptions {
  return {
    ...(collateral === undefined ? {} : { collateral: parseCollateral(readInputText(collateral)) }),
    ...(manifest === undefined ? {} : { app_compose: readInputText(manifest) }),
  }
}

function loginIn(path: string): Login {
  try {
    const content = Object(JSON.parse(readInputText(requireOwn(path)))) as Login & { login?: Login }
    return content.login ?? content
  } catch (error) {
    if (error instanceof SyntaxError) throw new InputFault(`${path} does not hold a login`)
    throw error
  }
}

const INPUTS = [InexactValue, NotAWallet, WalletLocked, WalletChanged, InUse, WrongAccount, RangeError]

/** Code and message of a failed command of trading; undefined for one that it does not know. */
export function judgeTrading(error: Error): Failure | undefined {
  if (error instanceof VerificationFailed || error instanceof OtherVenue)
    return { code: 4, message: `nothing was sent: ${error.message}` }
  if (error instanceof VenueProblem) return { code: 1, message: `the venue refuses: ${error.message}` }
  if (error instanceof NoNote)
    return {
      code: 1,
      message: `${error.message}: ${error.needed} base units of ${error.mint} are needed; 'tacit notes' shows what is free`,
    }
  if (error instanceof SessionEnded)
    return judgeTrading(error.cause as Error) ?? { code: 2, message: `${error.message}: ${error.cause}` }
  if (INPUTS.some((kind) => error instanceof kind)) return { code: 64, message: error.message }
  return error instanceof TypeError
    ? { code: 3, message: `the connection is lost: ${error.message}` }
    : undefined
}
