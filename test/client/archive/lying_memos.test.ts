/** No root covers a memo: what a lying node or archive hides is found as soon as an honest one is asked, or the doubt is said. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nullifierOfNote } from '../../../client/exit/prepare_exit'
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, concatBytes, toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../../protocol/notes/derive'
import { encodeMemo, noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'
import { CliSite, USDC } from '../cli_site'
import { LyingNode } from '../lying_node'

let site: CliSite
let liar: LyingNode
let pruned: LyingNode
let memos: Uint8Array[]
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))

beforeAll(async () => {
  site = await CliSite.open()
  ;[liar, pruned] = [new LyingNode(site.chain.url), new LyingNode(site.chain.url)]
  writeFileSync(site.path('seed'), toHex(wallet.seed), { mode: 0o600 })
  const [note] = await site.deposit(wallet, 5_000n)
  const outputs = [fillOutput(0, 2_000n), fillOutput(1, 3_000n)]
  memos = outputs.map(({ memo }) => memo)
  const ordered = outputs.toSorted((a, b) => compareBytes(a.commitment, b.commitment))
  await site.signer.settle({ nullifiers: [nullifierOfNote(note!)], outputs: ordered })
  pruned.lies = { getTransaction: () => null }
}, 180_000)
afterAll(async () => {
  await Promise.all([liar.stop(), pruned.stop()])
  await site.close()
})

/** Proceeds or change of the first fill of the wallet's first order. */
function fillOutput(index_role: number, amount: bigint) {
  const parts = { anchor: deriveAnchor(wallet.seed, 0, 0), order_id: deriveOrderId(wallet.seed, 0, 0) }
  const blinding = outputBlinding({ ...parts, nonce: 1n, generation: 0, index_role })
  const inner = noteInner(wallet.tradingKey(0), blinding)
  const commitment = settlementCommitment({ mint: decodeBase58(USDC, 32)!, amount, inner })
  return { commitment, memo: encodeMemo(blinding, amount) }
}

type Told = { meta: { innerInstructions: { instructions: { data: string }[] }[] } } | null
/** Misstates these memos. */
function lieAbout(hidden: readonly Uint8Array[]): void {
  liar.lies = {
    getTransaction: (result) => {
      const told = structuredClone(result) as Told
      for (const { instructions } of told?.meta.innerInstructions ?? [])
        for (const one of instructions) {
          const data = Buffer.from(decodeBase58(one.data)!)
          for (const memo of hidden) {
            const at = data.indexOf(memo)
            if (at >= 0) data.fill(0x5a, at, at + memo.length)
          }
          one.data = encodeBase58(data)
        }
      return told
    },
  }
}

async function run(command: 'recover' | 'sync', rpc: readonly string[], file: string, ...more: string[]) {
  const seed = command === 'recover' ? ['--seed-file', site.path('seed'), '--replace'] : []
  const where = ['--rpc', rpc.join(','), '--program', site.program_id, '--wallet', site.path(file)]
  const { code, out, error } = await site.run(command, ...where, ...seed, '--gap-commands', '50', ...more)
  return { code, total: /total .* (\d+)\n/.exec(out)?.[1], error }
}

test('a memo that one of two nodes alone could show is said to be in doubt, and one that two show differently is an error', async () => {
  lieAbout([memos[1]!])
  const honest = site.chain.url
  for (const nodes of [
    [liar.url, pruned.url],
    [pruned.url, liar.url],
  ]) {
    const { code, error } = await run('recover', nodes, 'doubt.json')
    expect([code, error]).toEqual([
      0,
      expect.stringContaining('1 batches of this wallet were shown by fewer'),
    ])
  }
  const disagree = await run('recover', [honest, liar.url], 'two.json')
  expect(disagree).toMatchObject({ code: 1, error: expect.stringContaining('has another batch 1 than') })
  expect(await run('recover', [honest, honest], 'two.json')).toEqual({ code: 0, total: '5000', error: '' })
}, 180_000)

test('after one reading of a lying node an honest one is enough: its batches replace the kept ones', async () => {
  lieAbout([memos[1]!])
  expect(await run('recover', [liar.url], 'change.json')).toEqual({ code: 0, total: '2000', error: '' })
  const healed = await run('sync', [site.chain.url], 'change.json')
  expect(healed).toMatchObject({ code: 0, total: '5000' })
  expect(healed.error).toContain('one of both is wrong; everything is read again')
  expect(await run('sync', [site.chain.url], 'change.json')).toEqual({ code: 0, total: '5000', error: '' })
  const history = join(site.path('change.json.history'), '00000000.block')
  const bytes = readFileSync(history)
  const foreign = bytes.with(20, bytes[20]! ^ 1)
  const sealed = concatBytes(foreign.subarray(0, -32), sha256(foreign.subarray(0, -32)))
  writeFileSync(history, sealed)
  // A history of another cluster is no lie of a node: it is not replaced.
  const elsewhere = await run('sync', [site.chain.url], 'change.json')
  expect(elsewhere).toMatchObject({ code: 1, error: expect.stringContaining('the archive is of vault') })
  expect(readFileSync(history).equals(sealed)).toBe(true)
  // With both memos hidden the search cannot end; the wallet gets the reason once the archive is compared.
  lieAbout(memos)
  expect(await run('recover', [liar.url], 'both.json', '--partial')).toMatchObject({
    code: 0,
    total: undefined,
  })
  expect(await run('sync', [site.chain.url], 'both.json')).toMatchObject({ code: 0, total: '5000' })
}, 180_000)

test("a mistaken memo in another's archive is an error, also where the search cannot end", async () => {
  for (const hidden of [[memos[1]!], memos]) {
    lieAbout(hidden)
    const name = `archive-${hidden.length}`
    const { exited } = Bun.spawn(
      [process.execPath, `${import.meta.dir}/../../../client/cli/tacit.ts`].concat(
        ...[['archive', '--rpc', liar.url, '--program', site.program_id, '--out', site.path(name)]],
      ),
      { stdout: 'ignore', stderr: 'ignore' },
    )
    expect(await exited).toBe(0)
    const of_it = await run('recover', [site.chain.url], `${name}.json`, '--archive', site.path(name))
    expect(of_it).toMatchObject({ code: 1, error: expect.stringContaining('has another batch 1 than') })
  }
}, 180_000)
