/** `tacit doctor`: looks at a trader's set-up in the order in which its parts are needed. */
import { existsSync } from 'node:fs'
import { accountIdOf } from '../../protocol/bodies/account'
import { deriveAccountKey } from '../../protocol/notes/derive'
import { publicKeyOf } from '../../protocol/sign'
import type { Login } from '../api/venue_client'
import { readVaultState } from '../chain/read_vault'
import { CLOCK_APART_MAX_MS } from '../limits'
import type { Call, Verb } from './call'
import { InputFault } from './command'
import { judge } from './failures'
import { publicClient } from './tables'

type Finding = { part: string; result: 'ok' | 'fault' | 'skipped'; text: string }

class Examination {
  readonly findings: Finding[] = []
  /** @returns what was found; undefined after a fault, and what needs it is skipped */
  async look<T>(part: string, find: () => Promise<[T, string]> | [T, string]): Promise<T | undefined> {
    try {
      const [found, text] = await find()
      this.findings.push({ part, result: 'ok', text })
      return found
    } catch (error) {
      if (!(error instanceof Error)) throw error
      this.findings.push({ part, result: 'fault', text: judge(error)?.message ?? error.message })
      return undefined
    }
  }
  skip(...parts: string[]): void {
    for (const part of parts)
      this.findings.push({ part, result: 'skipped', text: 'needs what is at fault above, or is not set' })
  }
}

async function examineVenue(call: Call, seen: Examination): Promise<Login | undefined> {
  const policy = await seen.look('policy', () => {
    const found = call.policy()
    if (found === undefined) throw new InputFault('--policy is needed: what you accept as this venue')
    return [found, String(call.optional('policy'))]
  })
  const venue =
    policy && (await seen.look('venue', async () => [await call.venue(), `${call.urls()}: verified`]))
  if (venue === undefined) {
    seen.skip('clock', 'login', 'account')
    return undefined
  }
  await seen.look('clock', async () => {
    const apart = Math.abs((await publicClient(venue).time()).unix_ms - Date.now())
    if (apart > CLOCK_APART_MAX_MS)
      throw new InputFault(`this machine's clock is ${Math.round(apart / 1_000)} s from the venue's: set it`)
    return [apart, 'as the venue']
  })
  const login = await seen.look('login', () => [call.login(), String(call.optional('login'))])
  if (login === undefined) seen.skip('account')
  else
    await seen.look('account', async () => {
      const view = await call.client(venue).account()
      if (view.state !== 'active') throw new InputFault(`the operator has it ${view.state}: ask the operator`)
      return [view, `${view.account_id}: active`]
    })
  return login
}

async function examineChain(call: Call, seen: Examination): Promise<void> {
  const chain = await seen.look('node', async () => {
    const reader = call.reader()
    return [reader, `${reader.rpc_url}: slot ${await reader.rpc.getSlot().send()}`]
  })
  if (chain === undefined) return seen.skip('vault', 'payer')
  await seen.look('vault', async () => {
    const { config } = await readVaultState(chain, call.program())
    if (config.frozen) throw new InputFault("it is frozen: 'tacit exit claim' claims your notes")
    return [config, `${call.program()}: epoch ${config.epoch}${config.paused ? ', paused' : ''}`]
  })
  if (call.optional('payer') === undefined) return seen.skip('payer')
  await seen.look('payer', async () => {
    const { rpc, payer } = await call.chain()
    const { value } = await rpc.getBalance(payer.address).send()
    if (value === 0n) throw new InputFault(`${payer.address} holds no SOL: it cannot pay fees`)
    return [value, `${payer.address}: ${value} lamports`]
  })
}

async function doctor(call: Call): Promise<number> {
  const seen = new Examination()
  await seen.look('settings', () => [
    call.urls().join(),
    existsSync('tacit.json') ? 'tacit.json' : 'without tacit.json',
  ])
  const login = await examineVenue(call, seen)
  await seen.look('wallet', () => {
    const { seed, state } = call.walletToChange()
    const own = accountIdOf(publicKeyOf(deriveAccountKey(seed)))
    if (login !== undefined && login.account_id !== (call.accountOf(login) ?? own))
      throw new InputFault(
        'the login is of another account than the one of its seed: make one from this seed',
      )
    const free = state.notes.filter((note) => note.state === 'free').length
    const open = state.requests?.length ?? 0
    if (open > 0) throw new InputFault(`${open} requests have no outcome yet: 'tacit settle'`)
    return [state, `${call.text('wallet')}: ${free} free notes`]
  })
  await examineChain(call, seen)
  call.list(
    'findings',
    seen.findings,
    ({ part, result, text }) => `${result.padEnd(8)} ${part.padEnd(9)} ${text}`,
  )
  return seen.findings.some(({ result }) => result === 'fault') ? 1 : 0
}

export const DOCTOR: Verb = {
  form: '',
  reads: ['venue', 'login', 'wallet', 'chain', 'payer'],
  says: 'looks at settings, policy, venue, clock, login, account, wallet, node, vault and payer in this order, and says what is wrong',
  example: 'tacit doctor',
  run: doctor,
}
