/** Two trading accounts, made and posted with the operator's own command, their credentials kept by the traders. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type { TokenRequest } from '../../protocol/wire'
import { openChainAccess } from '../chain/chain_access'
import { Wallet } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { DemoFailed, fact, short } from './report'
import { Trader } from './trader'
import type { LaptopFacts } from './venue_process'

const COMMAND = new URL('../../tools/account/main.ts', import.meta.url).pathname

async function operator(args: string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, COMMAND, ...args], { stdout: 'pipe', stderr: 'pipe' })
  const [out, failure] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if ((await child.exited) !== 0) throw new DemoFailed(`bun run account ${args[0]}: ${failure}`)
  return out
}

/** Credentials of a trader's account, made on the first run. */
export async function account(
  dir: string,
  name: string,
  facts: LaptopFacts,
  venue: string,
): Promise<TokenRequest> {
  const file = join(dir, `${name}-credentials.json`)
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as TokenRequest
  const record = join(dir, `${name}-record.json`)
  const key = ['--operator-key', facts.operator_key]
  const issued = await operator(['issue', ...key, '--account', name, '--out', record])
  const target = ['--url', facts.operator_url, '--venue', venue, '--ca', facts.certificate]
  await operator(['post', ...key, '--record', record, ...target])
  const { api_key, api_secret, passphrase } = JSON.parse(issued) as TokenRequest
  writeFileSync(file, JSON.stringify({ api_key, api_secret, passphrase }), { mode: 0o600 })
  fact(`account ${name}`, `issued by the operator's command, api key ${short(api_key)}`)
  return { api_key, api_secret, passphrase }
}

/** The trader's wallet and chain key, made on the first run. */
export async function openTrader(dir: string, name: string, rpc_url: string): Promise<Trader> {
  const wallet_path = join(dir, `${name}-wallet.json`)
  const payer_path = join(dir, `${name}-payer.hex`)
  const wallet = loadWallet(wallet_path) ?? new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  saveWallet(wallet_path, wallet)
  if (!existsSync(payer_path)) {
    const seed = crypto.getRandomValues(new Uint8Array(32))
    writeFileSync(payer_path, Buffer.from(seed).toString('hex'), { mode: 0o600 })
  }
  const payer_seed = fromHex(readFileSync(payer_path, 'utf8'), 32)!
  fact(`${name} trading key`, wallet.tradingKeyText(0))
  fact(`${name} Solana key`, encodeBase58(publicKeyOf(payer_seed)))
  return new Trader(name, wallet, wallet_path, await openChainAccess(rpc_url, payer_seed))
}
