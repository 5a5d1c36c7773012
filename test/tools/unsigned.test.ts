/** Unsigned transactions: slow signers, wrong files, other clusters, missing and forged signatures, secrets. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex } from '../../protocol/bytes'
import { publicKeyOf, sign as signBytes } from '../../protocol/sign'
import { programDataAddress, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import { initializeInstruction, pauseInstruction, registerMintInstruction } from '../../protocol/vault/admin'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { PROGRAM_DATA_HEADER_BYTES, renounceUpgrades } from '../../tools/program/loader'
import { writeDraft } from '../../tools/program/unsigned'
import { until } from '../client/cli_site'
import { LyingNode } from '../client/lying_node'
import { chainFolder, withChain } from '../kit/chain/chain_folder'
import { MULTISIG_ADDRESS, OperatorDesk } from '../kit/program_command'

const program_path = join(import.meta.dir, '../../program/vault.so')
const SLOTS = { slot_ms: 4, finalized_depth: 4 }

const folder = chainFolder()
let chain: OpenedChain
let desk: OperatorDesk
let own: string[]
let admin: string
let payer: string
let nonce: string

beforeAll(async () => {
  chain = await openEmbeddedChain({ ...SLOTS, data_dir: folder.dir })
  desk = new OperatorDesk(chain)
  const program = await makeGenesis(chain, { program_path })
  own = ['--rpc', chain.url, '--program', encodeBase58(program)]
  admin = desk.key('admin.json', chain.admin_seed)
  payer = desk.key('payer.json')
  desk.key('stranger.json')
  await desk.fund(payer)
  const made = await desk.run([
    ...['create-nonce', '--rpc', chain.url, '--payer', 'payer.json', '--key', admin, '--execute'],
  ])
  nonce = /nonce account: (\w+)/.exec(made.out)![1]!
  expect(made.error).toBe('')
})
afterAll(async () => {
  await chain.close()
  desk[Symbol.dispose]()
  folder.remove()
})

const write = (command: string, file: string, ...more: string[]) =>
  desk.run([command, ...own, '--admin', admin, '--unsigned', file, ...more])
const nonced = () => ['--payer', payer, '--nonce', nonce]
const sign = (file: string, key: string, signed = `${file}.signed`) =>
  desk.run(['sign', file, ...own.slice(2), '--with', key, '--signed', signed, '--execute'])
const submit = (file: string, signed = `${file}.signed`, ...more: string[]) =>
  desk.run(['submit', file, ...own, '--signed', signed, ...more])
const isPaused = async (): Promise<boolean> => JSON.parse((await desk.run(['show', ...own])).out).vault.paused

test('a signature may take longer than any blockhash lives; the file lands once, and its nonce with it', async () => {
  expect((await write('pause', 'pause', ...nonced())).error).toBe('')
  expect((await write('unpause', 'late', ...nonced())).code).toBe(0)
  const file = JSON.parse(readFileSync(desk.path('pause'), 'utf8'))
  expect(file).toMatchObject({
    name: 'pause',
    genesis_hash: encodeBase58(chain.genesis_hash),
    fee_payer: payer,
    signers: [payer, admin],
    nonce: { account: nonce, authority: admin },
  })
  expect(file.instructions[0].accounts.map(({ name }: { name: string }) => name)).toEqual(['admin', 'config'])
  expect(file.proposal_base58).toBeUndefined()

  for (const key of ['admin.json', 'payer.json']) expect((await sign('pause', key)).error).toBe('')
  chain.advance(400)
  const dry = await submit('pause')
  expect([dry.code, await isPaused()]).toEqual([0, false])
  const landed = await submit('pause', 'pause.signed', '--execute')
  expect([landed.error, await isPaused()]).toEqual(['', true])
  const again = await submit('pause', 'pause.signed', '--execute')
  expect(again.out.match(/landed: \w+/)![0]).toBe(landed.out.match(/landed: \w+/)![0])

  for (const key of ['admin.json', 'payer.json']) await sign('late', key)
  const late = await submit('late', 'late.signed', '--execute')
  expect([late.code, late.error]).toEqual([1, expect.stringContaining('the nonce was advanced')])
  expect(await isPaused()).toBe(true)
}, 180_000)

test('a tool that signs the message alone, and one that imports a proposal, get their inputs', async () => {
  await write('unpause', 'alone', ...nonced())
  const { message_base64, signers } = JSON.parse(readFileSync(desk.path('alone'), 'utf8'))
  const message = new Uint8Array(Buffer.from(message_base64, 'base64'))
  const seeds = [desk.seeds.get('payer.json')!, desk.seeds.get('admin.json')!]
  expect(signers).toEqual([payer, admin])
  const signatures = seeds.map((seed) => signBytes(seed, message))
  const wire = concatBytes(Uint8Array.of(signatures.length), ...signatures, message)
  writeFileSync(desk.path('alone.signed'), Buffer.from(wire).toString('base64'))
  expect((await submit('alone', 'alone.signed', '--execute')).error).toBe('')
  expect(await isPaused()).toBe(false)

  await desk.run(['pause', ...own, '--admin', MULTISIG_ADDRESS, '--unsigned', 'proposal'])
  const { proposal_base58, instructions } = JSON.parse(readFileSync(desk.path('proposal'), 'utf8'))
  const proposal = decodeBase58(proposal_base58)!
  const { signatures: none, messageBytes } = getTransactionDecoder().decode(proposal)
  expect(none).toEqual({ [MULTISIG_ADDRESS]: null })
  expect(getCompiledTransactionMessageDecoder().decode(messageBytes).version).toBe('legacy')
  expect(transactionInstructions(proposal)).toEqual([
    {
      program: instructions[0].program_id,
      data: new Uint8Array(Buffer.from(instructions[0].data_base64, 'base64')),
    },
  ])
}, 180_000)

test('a form that its signers cannot use is not written', async () => {
  const lone = await write('pause', 'none')
  expect([lone.code, lone.error]).toEqual([64, expect.stringContaining('--nonce is missing')])
  const paid = await write('pause', 'none', ...nonced(), '--priority-fee', '1')
  const direct = await desk.run(['pause', ...own, '--admin', 'admin.json', '--nonce', nonce])
  for (const { code, error } of [paid, direct])
    expect([code, error]).toEqual([64, expect.stringContaining('--priority-fee does not')])
  const proposal = ['pause', ...own, '--admin', MULTISIG_ADDRESS, '--unsigned', 'none']
  for (const more of [
    ['--nonce', nonce],
    ['--payer', payer],
  ]) {
    const refused = await desk.run([...proposal, ...more])
    expect([refused.code, refused.error]).toEqual([64, expect.stringContaining('signs by proposal')])
  }
  const stranger = await write('pause', 'none', '--payer', payer, '--nonce', payer)
  expect([stranger.code, stranger.error]).toEqual([1, '--nonce names no nonce account\n'])
  expect(existsSync(desk.path('none'))).toBe(false)
  expect((await desk.run(proposal)).code).toBe(0)
  const twice = await desk.run(proposal)
  expect([twice.code, twice.error]).toEqual([1, expect.stringContaining('EEXIST')])
  for (const args of [
    ['sign', 'none', ...own.slice(2), '--with', 'admin.json', '--signed', 'none.signed'],
    ['submit', 'none', ...own, '--signed', 'none.signed'],
  ])
    expect((await desk.run(args)).error).toContain("is a multisig's proposal")
}, 180_000)

test('a file that was changed is signed by no one and sent by no one', async () => {
  await write('announce-admin', 'honest', '--key', MULTISIG_ADDRESS, ...nonced())
  const text = readFileSync(desk.path('honest'), 'utf8')
  const stranger = encodeBase58(publicKeyOf(desk.seeds.get('stranger.json')!))
  const { instructions } = JSON.parse(text)
  const data = Buffer.from(instructions[0].data_base64, 'base64')
  data.set(desk.seeds.get('stranger.json')!.subarray(0, 32), 2)
  const changes = [
    text.replaceAll(MULTISIG_ADDRESS, stranger),
    text.replace('after twice the exit delay', 'never'),
    text.replace(instructions[0].data_base64, data.toString('base64')),
    text.replace('"is_signer": true', '"is_signer": false'),
    text.replace(encodeBase58(chain.genesis_hash), stranger),
    text.replace(/("account": ")\w+/, `$1${stranger}`),
    `${text} `,
    '{}',
    '',
  ]
  await sign('honest', 'admin.json')
  await sign('honest', 'payer.json')
  for (const changed of changes) {
    writeFileSync(desk.path('changed'), changed)
    const signed = await sign('changed', 'admin.json', 'changed.signed')
    const sent = await submit('changed', 'honest.signed', '--execute')
    // The cluster's hash is no part of the message: it is compared when the transaction is sent.
    const other_cluster = changed === changes[4]
    const message = other_cluster ? 'is for the cluster' : 'or it was changed'
    expect([sent.code, sent.error]).toEqual([1, expect.stringContaining(message)])
    if (!other_cluster) expect([signed.code, signed.error]).toEqual([1, expect.stringContaining(message)])
  }
}, 120_000)

test('a file of another program, account or cluster than the signer names is rejected by its name', async () => {
  const [program, mint] = [decodeBase58(own[3]!, 32)!, new Uint8Array(32).fill(5)]
  const [signer, evil] = [decodeBase58(admin, 32)!, new Uint8Array(32).fill(66)]
  const fields = { program, admin: signer, payer: signer, mint, token_program: TOKEN_PROGRAM }
  const register = registerMintInstruction({ ...fields, min_deposit: 1n, min_exit: 1n })
  const roles = { admin: signer, settlement_signer: signer, deployer: signer, exit_delay_s: 600 }
  const genesis = { genesis_hash: chain.genesis_hash, program_data: programDataAddress(program) }
  const renounce = renounceUpgrades(programDataAddress(program), signer)
  const begin = { program, ...roles, ...genesis }
  const swapped = (one: VaultInstruction, at: number) => {
    return { ...one, accounts: one.accounts.with(at, { ...one.accounts[at]!, address: evil }) }
  }
  const names = [
    'admin',
    'payer',
    'config',
    'mint_record',
    'mint',
    'vault_token',
    'token_program',
    'system_program',
  ]
  const chosen = ['admin', 'payer', 'mint']
  const cases: [string, VaultInstruction][] = [
    ['', register],
    ['', renounce],
    ['', initializeInstruction(begin)],
    ['the program', registerMintInstruction({ ...fields, program: evil, min_deposit: 1n, min_exit: 1n })],
    ['the program', pauseInstruction({ program: evil, admin: signer })],
    ...names.flatMap((name, at): [string, VaultInstruction][] =>
      chosen.includes(name) ? [] : [[`account ${name}`, swapped(register, at)]],
    ),
    // A chosen mint moves the derived addresses.
    ['account mint_record', swapped(register, names.indexOf('mint'))],
    ['account program_data', renounceUpgrades(evil, signer)],
    ['account program_data', initializeInstruction({ ...begin, program_data: evil })],
    ['the cluster of the vault', initializeInstruction({ ...begin, genesis_hash: evil })],
  ]
  const outcomes: string[] = []
  for (const [, instruction] of cases) {
    rmSync(desk.path('made'), { force: true })
    rmSync(desk.path('made.signed'), { force: true })
    const account = { account: decodeBase58(nonce, 32)!, authority: signer, value: mint }
    const draft = { genesis_hash: chain.genesis_hash, fee_payer: signer, nonce: account, instruction }
    writeDraft(desk.path('made'), draft)
    const { code, error } = await sign('made', 'admin.json')
    const named = error.replace(/ is \w+, which is not that of --program \w+\n/, '')
    outcomes.push(code === 0 ? '' : named)
    expect(existsSync(desk.path('made.signed'))).toBe(code === 0)
  }
  expect(outcomes).toEqual(cases.map(([name]) => name))
  const unnamed = await desk.run(['sign', 'made', '--with', 'admin.json', '--signed', 'x', '--execute'])
  expect([unnamed.code, unnamed.error]).toEqual([64, expect.stringContaining('--program is missing')])
}, 180_000)

test('a transaction that is not the one described, or lacks a signature, is not sent', async () => {
  await write('cancel-restore', 'wanted', ...nonced())
  await write('announce-restore', 'other', ...nonced())
  const refusals: [string, string][] = []
  const refused = async (signed: string) => {
    const { code, error } = await submit('wanted', signed, '--execute')
    refusals.push([signed, `${code} ${error.trim()}`])
  }
  for (const key of ['admin.json', 'payer.json']) await sign('other', key)
  await refused('other.signed')
  const stranger = await sign('wanted', 'stranger.json')
  expect(stranger.error).toContain('is no signer of wanted')
  await sign('wanted', 'payer.json')
  await refused('wanted.signed')
  await sign('wanted', 'admin.json')
  const whole = Buffer.from(readFileSync(desk.path('wanted.signed'), 'utf8'), 'base64')
  whole[1] = whole[1]! ^ 1
  writeFileSync(desk.path('forged.signed'), whole.toString('base64'))
  await refused('forged.signed')
  writeFileSync(desk.path('text.signed'), 'no transaction')
  await refused('text.signed')
  await refused('absent.signed')
  expect(refusals).toEqual([
    ['other.signed', '1 other.signed holds another transaction than the one described'],
    ['wanted.signed', `1 the signature of ${admin} is missing`],
    ['forged.signed', `1 the signature of ${payer} does not verify`],
    ['text.signed', '1 text.signed does not hold a transaction in base64'],
    ['absent.signed', '1 absent.signed does not hold a transaction in base64'],
  ])
  await withChain(SLOTS, async (cluster) => {
    const elsewhere = [
      'submit',
      'wanted',
      ...own.slice(2),
      '--signed',
      'wanted.signed',
      '--rpc',
      cluster.url,
      '--execute',
    ]
    const { code, error } = await desk.run(elsewhere)
    expect([code, error]).toEqual([1, expect.stringContaining('is for the cluster')])
  })
}, 180_000)

test('secrets are in their own files only, and one that is typed in place of a file is not repeated', async () => {
  const seeds = ['admin.json', 'payer.json', 'stranger.json'].map((name) => desk.seeds.get(name)!)
  const forms = seeds.flatMap((seed) => {
    const pair = concatBytes(seed, publicKeyOf(seed))
    const base64 = Buffer.from(seed).toString('base64').slice(0, -1)
    return [toHex(seed), encodeBase58(seed), encodeBase58(pair), JSON.stringify([...pair]), base64]
  })
  const written = readdirSync(desk.dir).filter((name) => !desk.seeds.has(name))
  expect(written.length).toBeGreaterThan(8)
  for (const name of written) {
    const text = readFileSync(desk.path(name), 'utf8')
    expect([name, forms.filter((form) => text.includes(form))]).toEqual([name, []])
  }
  // A seed in base58 has the form of an address: no command can know that it is none.
  const [hex, , ...others] = forms.slice(0, 5)
  for (const form of [hex!, ...others]) {
    for (const more of [[], ['--unsigned', 'secret', ...nonced()]]) {
      const { code, out, error } = await desk.run(['pause', ...own, '--admin', form, ...more])
      expect([form, code !== 0, `${out}${error}`.includes(form)]).toEqual([form, true, false])
    }
  }
}, 180_000)

async function interruptedAtPrompt(other: OperatorDesk, args: readonly string[]) {
  const waiting = other.start(args)
  await until(waiting.stdout, /To go on, type/)
  waiting.kill('SIGINT')
  await waiting.exited
  return waiting
}
/** A provider that shows other code in the place of every program's. */
function showingCode(url: string, elf: Uint8Array): LyingNode {
  const liar = new LyingNode(url)
  liar.lies = {
    getMultipleAccounts: (told) => {
      const answer = told as { value: ({ data: [string, string] } | null)[] }
      for (const account of answer.value) {
        const data = account && Buffer.from(account.data[0], 'base64')
        if (data && data.length > elf.length) data.set(elf, PROGRAM_DATA_HEADER_BYTES)
        if (data) account.data[0] = data.toString('base64')
      }
      return answer
    },
  }
  return liar
}

test('authority and code are given up only when typed again, and only for the tested binary', async () => {
  await withChain(SLOTS, async (cluster) => {
    using other = new OperatorDesk(cluster)
    const [program, authority] = [other.key('program.json'), other.key('authority.json')]
    await other.fund(authority)
    const files = ['--payer', 'authority.json', '--authority', 'authority.json', '--rpc', cluster.url]
    cluster.faults.refuse_v1 = true
    const unread = await other.run(['deploy', ...files, '--program', 'program.json', '--execute'])
    expect([unread.code, unread.error]).toEqual([1, expect.stringContaining('no provider takes v1')])
    cluster.faults.refuse_v1 = false
    const of_two = ['--rpc', `${cluster.url},${chain.url}`, '--program', 'program.json']
    const mixed = await other.run(['deploy', ...files.slice(0, 4), ...of_two])
    expect(mixed).toEqual({ code: 2, out: '', error: 'the RPC providers do not agree\n' })
    expect((await other.run(['deploy', ...files, '--program', 'program.json', '--execute'])).error).toBe('')

    const at = ['--program', program, ...files.slice(2)]
    const held = async () => JSON.parse((await other.run(['show', ...at.slice(0, 2), ...at.slice(4)])).out)
    expect(await held()).toMatchObject({ authority: authority, code_is_tested: true, vault: null })
    const code = encodeBase58(programDataAddress(publicKeyOf(other.seeds.get('program.json')!)))
    for (const typed of ['', 'yes\n', `${program}\n`]) {
      const refused = await other.run(['renounce', ...at, '--execute'], typed)
      expect([refused.code, refused.error]).toEqual([1, 'not confirmed: nothing was sent\n'])
      const kept = await other.run(['set-authority', ...at, '--new', MULTISIG_ADDRESS, '--execute'], typed)
      expect([kept.code, kept.error]).toEqual([1, 'not confirmed: nothing was sent\n'])
    }
    for (const verb of [['renounce'], ['set-authority', '--new', MULTISIG_ADDRESS]]) {
      const { signalCode } = await interruptedAtPrompt(other, [...verb, ...at, '--execute'])
      expect([signalCode, (await held()).authority]).toEqual(['SIGINT', authority])
    }
    // A multisig that holds the authority opens the vault and hands the authority back, each by proposal.
    await other.fund(MULTISIG_ADDRESS)
    const given = ['set-authority', ...at, '--new', MULTISIG_ADDRESS, '--execute']
    expect((await other.run(given, `${MULTISIG_ADDRESS}\n`)).error).toBe('')
    const its = ['--program', program, '--authority', MULTISIG_ADDRESS, '--rpc', cluster.url]
    const roles = ['--admin', MULTISIG_ADDRESS]
    for (const [verb, ...more] of [
      ['initialize', ...roles],
      ['set-authority', '--new', authority],
    ]) {
      expect((await other.run([verb!, ...its, ...more, '--unsigned', `${verb}.json`])).error).toBe('')
      await other.execute(`${verb}.json`, 'authority.json')
    }
    expect(await held()).toMatchObject({ authority, vault: { admin: MULTISIG_ADDRESS } })
    const elf = new Uint8Array(readFileSync(program_path))
    elf[elf.length - 8] = elf[elf.length - 8]! ^ 1
    writeFileSync(other.path('changed.so'), elf)
    writeFileSync(other.path('changed.so.sha256'), readFileSync(`${program_path}.sha256`))
    const unknown = await other.run(['renounce', ...at, '--elf', 'changed.so', '--execute'], `${code}\n`)
    expect([unknown.code, unknown.error]).toEqual([1, expect.stringContaining('is not the binary that')])
    const hash = new Bun.CryptoHasher('sha256').update(elf).digest('hex')
    writeFileSync(other.path('changed.so.sha256'), `${hash}  changed.so\n`)
    const differs = await other.run(['renounce', ...at, '--elf', 'changed.so', '--execute'], `${code}\n`)
    expect([differs.code, differs.error]).toEqual([1, expect.stringContaining('the code on chain is not')])
    const liar = showingCode(cluster.url, elf)
    const of_liar = ['--rpc', `${liar.url},${cluster.url}`, '--elf', 'changed.so', '--execute']
    const believed = await other.run(['renounce', ...at.slice(0, 4), ...of_liar], `${code}\n`)
    expect([believed.code, believed.error]).toEqual([2, 'the RPC providers do not agree\n'])
    await liar.stop()
    expect(await held()).toMatchObject({ authority: authority })
    const renounced = await other.run(['renounce', ...at, '--execute'], `${code}\n`)
    expect(renounced.error).toBe('')
    expect(await held()).toMatchObject({ authority: null, code_is_tested: true })
  })
}, 120_000)
