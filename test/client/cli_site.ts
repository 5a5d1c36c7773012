/** The wallet's commands as processes in a folder of their own, on a chain where no venue ever ran. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { callRpc, chainFolder } from '../kit/chain/chain_folder'

const CLI = join(import.meta.dir, '../../client/cli/wallet.ts')
const PROGRAM = join(import.meta.dir, '../../program/vault.so')
export const EXIT_DELAY_S = 600

export type Said = { code: number; out: string; error: string }

export class CliSite {
  private constructor(
    readonly folder: { dir: string; remove(): void },
    readonly chain: OpenedChain,
    readonly program_id: string,
  ) {}

  static async open(): Promise<CliSite> {
    const folder = chainFolder()
    const chain = await openEmbeddedChain({ data_dir: join(folder.dir, 'chain'), slot_ms: 10 })
    const settlement_signer = publicKeyOf(crypto.getRandomValues(new Uint8Array(32)))
    const genesis = { program_path: PROGRAM, settlement_signer, exit_delay_s: EXIT_DELAY_S }
    return new CliSite(folder, chain, encodeBase58(await makeGenesis(chain, genesis)))
  }

  path(name: string): string {
    return join(this.folder.dir, name)
  }
  /** `--rpc URL --program ADDRESS`. */
  get where(): string[] {
    return ['--rpc', this.chain.url, '--program', this.program_id]
  }

  start(...args: string[]) {
    return Bun.spawn([process.execPath, CLI, ...args], { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' })
  }
  async run(...args: string[]): Promise<Said> {
    return said(this.start(...args))
  }

  /** A Solana key file; its address. */
  payer(name: string): string {
    const seed = crypto.getRandomValues(new Uint8Array(32))
    const key_file = JSON.stringify([...seed, ...publicKeyOf(seed)])
    writeFileSync(this.path(name), key_file, { mode: 0o600 })
    return encodeBase58(publicKeyOf(seed))
  }
  async fund(owner: string, mint: string, amount: string): Promise<void> {
    await callRpc(this.chain, 'requestAirdrop', [owner, 5_000_000_000])
    await callRpc(this.chain, 'tacit_mintTo', [{ mint, owner, amount }])
    this.chain.advance(2)
  }

  async close(): Promise<void> {
    await this.chain.close()
    this.folder.remove()
  }
}

/** What a command printed, once it ended. */
export async function said(child: ReturnType<CliSite['start']>): Promise<Said> {
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const [code, [out, error]] = await Promise.all([child.exited, texts])
  return { code, out, error }
}
export const notesIn = (out: string): string[] => out.match(/^[0-9a-f]{64}/gm) ?? []
