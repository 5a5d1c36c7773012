/**
 * One call of a verb: its options and settings, the files and connections that they open, and its output: lines, tables of
 * notes, or one JSON value.
 */
import { existsSync } from 'node:fs'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { parseU64 } from '../../protocol/units'
import type { AccountEvent, Instrument } from '../../protocol/wire/trading'
import { type Login, VenueClient } from '../api/venue_client'
import { type ChainAccess, type ChainReader, openChainAccess, openChainReader } from '../chain/chain_access'
import { connect } from '../connect'
import { PROGRESS_AFTER_MS, PROGRESS_EVERY_MS } from '../limits'
import { Session } from '../session/session'
import { formatAmount } from '../session/units'
import type { ConnectOptions, VerifiedVenue } from '../verified_venue'
import { BARE_POLICY, parsePolicy, type VerificationPolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral'
import { printable, Refused } from '../verify/transcript'
import type { Wallet } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { InputFault, namesIn, Options, readInputText, UsageFault } from './command'
import {
  type Config,
  lockPath,
  MEANINGS,
  type Place,
  passwordIn,
  readConfig,
  requireOwn,
  rpcOf,
  SETTINGS,
  type Setting,
} from './config'

export type Verb = {
  /** Words after the verb and its own options: the help and the parser read the same text. */
  form: string
  /** Settings that it reads, each an option too. */
  reads?: readonly Setting[]
  says: string
  example: string
  /** @returns the exit code; 0 for nothing */
  run(call: Call): unknown
}

const TRADER: readonly Setting[] = ['venue', 'login', 'wallet']
/** Inputs of a session. */
export const IN_SESSION = { reads: TRADER } as const

/** Every verb has `--json`; those with settings name the file of them, or the data folder of a venue on this machine. */
export const optionsOf = ({ reads = [] }: Verb): string =>
  [
    ...reads.map((name) => SETTINGS[name]),
    ...(reads.length === 0 ? [] : ['[--config FILE] [--data FOLDER]']),
    '[--json]',
  ].join(' ')

export class Call extends Options<string, string> {
  private readonly reads: ReadonlySet<string>
  private readonly facts: Record<string, unknown> = {}
  private settings: Config | undefined

  /** @throws as `Options` does */
  constructor(verb: Verb, args: readonly string[]) {
    const [own, settings] = [namesIn(verb.form), namesIn(optionsOf(verb))]
    const flags = [...own.flags, ...settings.flags]
    super(args, { ...own, texts: [...own.texts, ...settings.texts], flags })
    this.reads = new Set(settings.texts)
    const [first] = this.words
    this.named_url = verb.form.startsWith('[URL]') && first?.includes('://') ? first : undefined
  }
  /** The address of a venue that is a word of the command, not an option. */
  private readonly named_url: string | undefined

  // Options and settings.

  /** An option, or else the setting of that name, if the verb reads it. */
  override optional(name: string): string | undefined {
    const given = super.optional(name)
    return given ?? (this.reads.has(name) ? this.config[name as Place] : undefined)
  }
  override text(name: string, fallback?: string): string {
    const value = this.optional(name) ?? fallback
    if (value === undefined) throw new InputFault(`--${name} is needed: ${MEANINGS[name]}`)
    return value
  }
  private get config(): Config {
    this.settings ??= readConfig((name) =>
      name === 'url' ? (this.named_url ?? super.optional(name)) : super.optional(name),
    )
    return this.settings
  }
  /** @throws Refused for a file that others may read */
  override seed(name: string): Uint8Array {
    const seed = super.seed(name)
    requireOwn(this.text(name))
    return seed
  }
  /** First line of the file that `--password-file` names. @throws Refused for a file that others may read */
  password(): string | undefined {
    const path = this.optional('password-file')
    return path === undefined ? undefined : passwordIn(path)
  }
  protected override fault(message: string): Error {
    return new InputFault(message)
  }

  // The wallet.

  /** For reading only. */
  wallet(): Wallet {
    const path = this.text('wallet')
    const wallet = loadWallet(path, this.password())
    if (wallet === undefined)
      throw new Refused(`there is no wallet at ${path}: make it with 'wallet create' or 'wallet recover'`)
    return wallet
  }
  /** Locked for changes. @throws Refused while another command holds the lock */
  walletToChange(): Wallet {
    const path = this.text('wallet')
    // A lock would leave its file beside a wallet that is not there.
    if (existsSync(path)) lockPath(path)
    return this.wallet()
  }

  // The chain: from settings, or else the node that the policy names.

  /** The nodes that were asked. */
  node: string | undefined
  private rpc(): string {
    this.node = rpcOf(this.optional('rpc') ?? this.policy()?.chain?.rpc_url ?? this.text('rpc'))
    return this.node
  }
  program(): string {
    if (this.optional('program') !== undefined) return encodeBase58(this.address('program'))
    return this.policy()?.chain?.program_id ?? this.text('program')
  }
  reader(): ChainReader {
    return openChainReader(this.rpc())
  }
  /** With `--payer` as payer; with `--dry-run` nothing is sent. */
  async chain(): Promise<ChainAccess> {
    const chain = await openChainAccess(this.rpc(), this.seed('payer'))
    return this.flag('dry-run') ? { ...chain, rehearsal: { lamports: 0n } } : chain
  }
  /** The wallet's file is as it was after a dry run. */
  keep(wallet: Wallet): void {
    if (!this.flag('dry-run')) saveWallet(this.text('wallet'), wallet)
  }

  // The venue.

  /** One address, or those of a venue's nodes, which `--url` separates by commas. */
  urls(): string[] {
    const urls = this.text('url').split(',')
    // A word in place of an option is a misuse of the form.
    const fault = (message: string) =>
      this.named_url === undefined ? new InputFault(message) : new UsageFault(message)
    const good = urls.every((url) => url.startsWith('https://') && URL.canParse(url))
    if (!good) throw fault('--url is an https address')
    return urls
  }
  policy(): VerificationPolicy | undefined {
    const path = this.config.policy
    return path === undefined ? undefined : parsePolicy(readInputText(path))
  }
  connectOptions(): ConnectOptions {
    const { collateral, manifest } = this.config
    return {
      ...(collateral === undefined ? {} : { collateral: parseCollateral(readInputText(collateral)) }),
      ...(manifest === undefined ? {} : { app_compose: manifest.split(',').map(readInputText) }),
    }
  }
  /** Verified first. @throws VerificationFailed, EvidenceUnavailable */
  venue(): Promise<VerifiedVenue> {
    const [urls, policy] = [this.urls(), this.policy() ?? BARE_POLICY]
    return this.during(`verifying ${urls}`, connect(urls, policy, this.connectOptions()))
  }
  login(): Login {
    const path = requireOwn(this.text('login'))
    let content: Login & { login?: Login }
    try {
      content = Object(JSON.parse(readInputText(path)))
    } catch (error) {
      if (error instanceof SyntaxError) throw new InputFault(`${path} does not hold a login`)
      throw error
    }
    const login = content.login ?? content
    if (fromHex(String(login.account_id), 32) === undefined)
      throw new InputFault(`${path} does not name its account: make a login with 'tacit account request'`)
    return login
  }
  /** The account that is expected in place of the one of the wallet's seed. */
  accountOf(login: Login): string | undefined {
    // The demo account of this machine's venue belongs to no wallet.
    const is_demo = this.optional('login')?.endsWith('demo-login.json')
    return this.optional('account') ?? (is_demo ? login.account_id : undefined)
  }
  client(venue: VerifiedVenue): VenueClient {
    return new VenueClient(venue, this.login())
  }
  /** Runs `use` in a session whose wallet has every event that the venue had, and closes it. */
  async session<T>(use: (session: Session) => Promise<T>, event?: (event: AccountEvent) => void): Promise<T> {
    const [login, password] = [this.login(), this.password()]
    const account = this.accountOf(login)
    const policy = this.policy()
    const urls = this.urls()
    if (policy === undefined) throw new InputFault(`--policy is needed: ${MEANINGS['policy']}`)
    const opening = Session.open({
      url: urls,
      policy,
      login,
      connect: this.connectOptions(),
      wallet: this.text('wallet'),
      ...(account === undefined ? {} : { account_id: account }),
      ...(password === undefined ? {} : { password }),
      ...(event === undefined ? {} : { event }),
      ended: () => undefined,
    })
    const session = await this.during(`verifying ${urls}`, opening)
    try {
      await this.during("reading the account's events", catchUp(session))
      return await this.during('waiting for the venue', use(session))
    } finally {
      session.close()
    }
  }

  // Output of the verb.

  get is_json(): boolean {
    return this.flag('json')
  }
  /** Prints the value as JSON, or else its lines. */
  print(value: unknown, lines: () => readonly string[]): void {
    if (this.is_json) console.log(jsonOf(value))
    else for (const line of lines()) printLine(line)
  }
  /** One fact of the answer: a line, or a field of the JSON value that `finish` prints. */
  say(name: string, value: unknown, text: string | readonly string[] = String(value)): void {
    if (this.is_json) this.facts[name.replaceAll(' ', '_')] = value
    else
      for (const [at, line] of [text].flat().entries())
        printLine(`${(at === 0 ? name : '').padEnd(12)} ${line}`)
  }
  /** The same for a list. */
  list<T>(name: string, items: readonly T[], line: (item: T) => string | readonly string[]): void {
    if (this.is_json) this.facts[name] = items
    else for (const text of items.flatMap(line)) printLine(text)
  }
  /** Advice for a person. */
  hint(text: string): void {
    if (!this.is_json) printLine(text)
  }
  finish(): void {
    if (this.is_json && Object.keys(this.facts).length > 0) console.log(jsonOf(this.facts))
  }
  /** Names on a terminal an operation that takes longer than a second. */
  async during<T>(doing: string, work: Promise<T>): Promise<T> {
    if (!process.stderr.isTTY) return work
    const began = performance.now()
    const say = (): void => console.error(`${doing}: ${Math.round((performance.now() - began) / 1_000)} s`)
    let every: ReturnType<typeof setInterval> | undefined
    const first = setTimeout(() => {
      say()
      every = setInterval(say, PROGRESS_EVERY_MS)
    }, PROGRESS_AFTER_MS)
    return work.finally(() => {
      clearTimeout(first)
      clearInterval(every)
    })
  }
}

/** One line: a line break in the text of a venue, a node or a file would forge another. */
const printLine = (text: string): void => console.log(printable(text))

const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? String(one) : one))

/** Waits until the wallet has absorbed the events that the venue has now. */
async function catchUp(session: Session): Promise<void> {
  for (;;) {
    const { items } = await session.client.events({ after: session.wallet.state.seq, limit: 100 })
    const last = items.at(-1)
    if (last === undefined) return
    await session.until(({ state }) => state.seq >= last.seq || undefined)
  }
}

/** A whole number of base units above 0. */
export function unitsIn(text: string): bigint {
  const amount = parseU64(text)
  if (amount === undefined || amount === 0n)
    throw new InputFault('an amount is a whole number of base units above 0')
  return amount
}

/** Decimals and names of tokens: a name is a half of an instrument's symbol. */
export type Tokens = {
  instruments: ReadonlyMap<string, Instrument>
  of(mint: string): { name: string; decimals: number } | undefined
}

/**
 * The mint that a command names: an address, or a name that an instrument of the venue has for it; undefined for neither.
 * @param client as for `readTokens`, asked for a name alone; undefined without a venue
 */
export async function mintNamed(
  text: string,
  client: (() => Promise<VenueClient>) | undefined,
): Promise<string | undefined> {
  if (decodeBase58(text, 32) !== undefined) return text
  if (client === undefined) return undefined
  const { instruments, of } = await readTokens(await client())
  const mints = [...instruments.values()].flatMap((one) => [one.base_mint, one.quote_mint])
  return mints.find((mint) => of(mint)?.name === text)
}

/** @param client of a verified venue; no login is needed */
export async function readTokens(client: VenueClient): Promise<Tokens> {
  const list = await client.instruments()
  const tokens = new Map<string, { name: string; decimals: number }>()
  for (const { symbol, base_mint, base_decimals, quote_mint, quote_decimals } of list) {
    const [base = '', quote = ''] = symbol.split('-')
    tokens.set(base_mint, { name: base, decimals: base_decimals })
    tokens.set(quote_mint, { name: quote, decimals: quote_decimals })
  }
  return { instruments: new Map(list.map((one) => [one.symbol, one])), of: (mint) => tokens.get(mint) }
}

/** For reads that need no login. */
export const publicClient = (venue: VerifiedVenue): VenueClient =>
  new VenueClient(venue, { account_id: '', api_key: '', api_secret: '', passphrase: '' })

/** One line per note, then the sum per mint: in tokens where their decimals are known, else in base units. */
export function printNotes(call: Call, wallet: Wallet, with_spent: boolean, tokens?: Tokens): void {
  const notes = wallet.state.notes.filter((note) => with_spent || note.state !== 'spent')
  const shown = (mint: string, units: bigint): string => {
    const token = tokens?.of(mint)
    return token === undefined
      ? `${mint}  ${String(units).padStart(20)}`
      : `${token.name.padEnd(6)} ${formatAmount(units, token.decimals).padStart(20)}`
  }
  call.list('notes', notes, ({ commitment, mint, amount, state, key_index, origin }) => {
    return `${commitment}  ${shown(mint, BigInt(amount))}  key ${key_index}  ${state}  ${origin}`
  })
  const totals = [...new Set(notes.map((note) => note.mint))].map((mint) => {
    return { mint, amount: wallet.balance(mint) }
  })
  call.list('totals', totals, ({ mint, amount }) => `${'total'.padEnd(64)}  ${shown(mint, amount)}`)
  if (notes.length === 0) call.hint('no notes')
}
