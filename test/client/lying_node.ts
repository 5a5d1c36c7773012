/** JSON-RPC endpoints that change the answers of chosen methods or misstate claims, and a claim that no client would send. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { type ChainAccess, payerKey, toInstruction } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { ownAccount, programBytes } from '../../client/chain/read_vault'
import { sendInstructions } from '../../client/chain/send_instructions'
import { prepareClaim, type VaultProofs } from '../../client/exit/prepare_exit'
import type { Wallet, WalletNote } from '../../client/wallet/wallet'
import { deriveTradingKey } from '../../protocol/notes/derive'
import { ACCOUNT_LAYOUTS, decodeEscapeClaim, type EscapeClaim } from '../../protocol/vault/accounts'

/** A JSON-RPC endpoint that passes every call on and changes the answers of chosen methods. */
type Lie = (result: unknown, params: unknown[]) => unknown

export class LyingNode {
  private readonly server: Bun.Server<undefined>
  /** By method; without one the answer is the truth. */
  lies: Record<string, Lie> = {}
  /** In place of every answer. */
  instead: (() => Response) | undefined
  /** The answer where a lie throws. */
  failure = (): Response => new Response('', { status: 500 })

  /** @param hostname of loopback: nodes of one policy are at different hosts */
  constructor(truth_url: string, hostname = '127.0.0.1') {
    this.server = Bun.serve({
      hostname,
      port: 0,
      fetch: async (request) => {
        const body = await request.text()
        if (this.instead !== undefined) return this.instead()
        const headers = { 'content-type': 'application/json' }
        const told = await fetch(truth_url, { method: 'POST', headers, body })
        const answer = (await told.json()) as { result: unknown }
        const { method, params } = JSON.parse(body) as { method: string; params: unknown[] }
        const lie = this.lies[method]
        if (lie === undefined || answer.result === undefined) return Response.json(answer)
        try {
          return Response.json({ ...answer, result: lie(answer.result, params) })
        } catch {
          return this.failure()
        }
      },
    })
  }

  get url(): string {
    return this.server.url.href
  }
  stop(): Promise<void> {
    return this.server.stop(true)
  }
}

export async function claimFalsely(
  chain: ChainAccess,
  program_id: string,
  wallet: Wallet,
  note: WalletNote,
): Promise<void> {
  const proofs: VaultProofs = Object.create(await readProofs(chain, program_id), {
    requireUnspent: { value: () => undefined },
  })
  const terms = { program: programBytes(program_id), payer: payerKey(chain) }
  const to = { ...terms, destination: ownAccount(chain, note.mint).bytes }
  const owner = await createKeyPairSignerFromPrivateKeyBytes(deriveTradingKey(wallet.seed, note.key_index))
  const instruction = toInstruction(prepareClaim(wallet, note, proofs, to), [owner, chain.payer])
  await sendInstructions(chain, [instruction], 'confirmed')
}

/** A node that shows each claim changed. */
export function misstating(
  truth_url: string,
  change: (claim: EscapeClaim) => Partial<EscapeClaim>,
): LyingNode {
  const lying = new LyingNode(truth_url)
  type Account = { data: [string, string] } | null
  const lie = (account: Account): Account => {
    const claim = account && decodeEscapeClaim(new Uint8Array(Buffer.from(account.data[0], 'base64')))
    if (!claim) return account
    const data = ACCOUNT_LAYOUTS.escape_claim.encode({ ...claim, ...change(claim) })
    return { ...account, data: [Buffer.from(data).toString('base64'), 'base64'] }
  }
  lying.lies = {
    getProgramAccounts: (told) =>
      (told as { pubkey: string; account: Account }[]).map(({ pubkey, account }) => ({
        pubkey,
        account: lie(account),
      })),
    getMultipleAccounts: (told) => {
      const answer = told as { value: Account[] }
      return { ...answer, value: answer.value.map(lie) }
    },
  }
  return lying
}
