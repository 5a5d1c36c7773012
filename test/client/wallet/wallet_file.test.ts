/** The wallet's file is encrypted, readable by its owner only, whole after any interrupted save, and of one program at a time. */
import { afterAll, expect, spyOn, test } from 'bun:test'
import * as fs from 'node:fs'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import * as path from 'node:path'
import { passwordKey, passwordKeyAsync, seal, unseal } from '../../../client/wallet/sealed_text'
import {
  NotSeedWords,
  seedOfWords,
  Wallet,
  type WalletNote,
  wordsOfSeed,
} from '../../../client/wallet/wallet'
import {
  loadWallet,
  NotAWallet,
  saveWallet,
  WalletChanged,
  WalletLocked,
} from '../../../client/wallet/wallet_file'
import { InUse, lockFile, NotWritten } from '../../../client/whole_file'
import { fromHex, toHex } from '../../../protocol/bytes'
import { fillUp, isMountable, withSmallVolume } from '../../kit/small_volume'

const { join } = path
const folder = mkdtempSync(join(tmpdir(), 'tacit-wallet-file-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const at = (name: string): string => join(folder, name)
const ROOT = join(import.meta.dir, '../../..')
const SEED = new Uint8Array(32).fill(7)
const noteOf = (number: number): WalletNote => ({
  commitment: toHex(new Uint8Array(32).fill(number)),
  key_index: 0,
  mint: 'So11111111111111111111111111111111111111112',
  amount: '1000',
  blinding: '11'.repeat(32),
  leaf_index: number,
  state: 'free',
  origin: 'deposit',
})
const saved = (name: string, password?: string): Wallet => {
  const wallet = new Wallet(SEED)
  saveWallet(at(name), wallet, password === undefined ? {} : { password })
  return wallet
}
const failureOf = (call: () => unknown): unknown => {
  try {
    return call()
  } catch (error) {
    return error
  }
}
/** A program that has the client's wallet functions; `argv` are its arguments. */
const program = (code: string, ...args: string[]) =>
  Bun.spawn(
    [
      process.execPath,
      '-e',
      `import { loadWallet, saveWallet } from ${JSON.stringify(join(ROOT, 'client/wallet/wallet_file.ts'))}
       import { lockFile } from ${JSON.stringify(join(ROOT, 'client/whole_file.ts'))}
       const [path] = process.argv.slice(1)
       ${code}`,
      ...args,
    ],
    { stdout: 'pipe', stderr: 'pipe' },
  )

test('an encrypted file shows neither seed nor notes, opens with its password alone, and stays encrypted', () => {
  const wallet = saved('sealed.json', 'correct horse')
  wallet.state.notes.push(noteOf(1))
  saveWallet(at('sealed.json'), wallet)
  const text = readFileSync(at('sealed.json'), 'utf8')
  for (const secret of [toHex(SEED), noteOf(1).commitment, 'correct horse'])
    expect(text).not.toContain(secret)
  expect(statSync(at('sealed.json')).mode & 0o777).toBe(0o600)
  expect(failureOf(() => loadWallet(at('sealed.json')))).toBeInstanceOf(WalletLocked)
  expect(failureOf(() => loadWallet(at('sealed.json'), 'Correct horse'))).toBeInstanceOf(WalletLocked)
  const again = loadWallet(at('sealed.json'), 'correct horse')!
  expect([again.seed, again.state]).toEqual([SEED, wallet.state])
  again.state.notes.push(noteOf(2))
  saveWallet(at('sealed.json'), again)
  const later = readFileSync(at('sealed.json'), 'utf8')
  const [before, after] = [JSON.parse(text).sealed, JSON.parse(later).sealed]
  expect([before.salt, before.nonce]).not.toEqual([after.salt, after.nonce])
  expect(loadWallet(at('sealed.json'), 'correct horse')?.state.notes.length).toBe(2)
})

test("a page's fields of the wallet are saved as they were read, sealed or in clear", () => {
  const page = { payer_seed: '5a'.repeat(32), is_admitted: true }
  const content = { ...page, seed: toHex(SEED), state: new Wallet(SEED).state }
  const key = passwordKey('p')
  const opened = () => {
    const { sealed } = JSON.parse(readFileSync(at('copy.json'), 'utf8'))
    return JSON.parse(unseal(sealed, passwordKey('p', sealed.salt))!)
  }
  writeFileSync(at('page.json'), JSON.stringify({ version: 3, sealed: seal(JSON.stringify(content), key) }), {
    mode: 0o600,
  })
  const wallet = loadWallet(at('page.json'), 'p')!
  wallet.state.notes.push(noteOf(1))
  saveWallet(at('copy.json'), wallet)
  expect(opened()).toEqual({ ...content, state: wallet.state })
  // Through a file in clear and back.
  writeFileSync(at('clear.json'), JSON.stringify(content), { mode: 0o600 })
  saveWallet(at('copy.json'), loadWallet(at('clear.json'))!, { password: 'p', replace: true })
  expect(opened()).toEqual(content)
})

test('an encrypted file with any wrong byte, cut or hostile, is refused', () => {
  saved('damaged.json', 'p')
  const text = readFileSync(at('damaged.json'), 'utf8')
  const { sealed, version } = JSON.parse(text)
  const flip = (hex: string) => (hex[0] === '0' ? '1' : '0') + hex.slice(1)
  const other = {
    ...sealed,
    box: flip(sealed.box),
  }
  const short = { ...sealed, box: sealed.box.slice(0, -24) }
  for (const wrong of [
    other,
    short,
    { ...sealed, salt: flip(sealed.salt) },
    { ...sealed, nonce: flip(sealed.nonce) },
  ]) {
    writeFileSync(at('damaged.json'), JSON.stringify({ version, sealed: wrong }))
    expect(failureOf(() => loadWallet(at('damaged.json'), 'p'))).toBeInstanceOf(WalletLocked)
  }
  const hostile = [1, null, '0', 'é0', '0g'].map((box) => ({ ...sealed, box }))
  for (const wrong of [undefined, {}, { ...sealed, box: '' }, { ...sealed, salt: 'zz' }, ...hostile]) {
    writeFileSync(at('damaged.json'), JSON.stringify({ version, sealed: wrong }))
    expect(failureOf(() => loadWallet(at('damaged.json'), 'p'))).toBeInstanceOf(NotAWallet)
  }
  const scrypt = { version: 2, sealed: { ...sealed, scrypt_cost: 131_072 } }
  writeFileSync(at('damaged.json'), JSON.stringify(scrypt))
  expect(String(failureOf(() => loadWallet(at('damaged.json'), 'p')))).toContain('older version: recover it')
  writeFileSync(at('damaged.json'), JSON.stringify({ version: 1, seed: 'ab', state: {} }))
  expect(String(failureOf(() => loadWallet(at('damaged.json'))))).toStartWith(
    `NotAWallet: ${at('damaged.json')} is not a wallet: `,
  )
  for (let length = 0; length < text.length - 2; length += 7) {
    writeFileSync(at('damaged.json'), text.slice(0, length))
    expect(failureOf(() => loadWallet(at('damaged.json'), 'p'))).toBeInstanceOf(NotAWallet)
  }
})

test('a password gives the same key on a platform without argon2id, and in a page', async () => {
  const salt = 'ab'.repeat(16)
  const { key } = passwordKey('pässword', salt)
  expect((await passwordKeyAsync('pässword', salt)).key).toEqual(key)
  const platform = spyOn(process, 'getBuiltinModule').mockReturnValue({} as never)
  const without = passwordKey('pässword', salt)
  platform.mockRestore()
  expect(without.key).toEqual(key)
})

test('the remains of an interrupted save give neither their mode nor their target to the next', () => {
  writeFileSync(at('left.json.new'), 'half')
  chmodSync(at('left.json.new'), 0o644)
  saved('left.json')
  expect(statSync(at('left.json')).mode & 0o777).toBe(0o600)
  writeFileSync(at('elsewhere'), '')
  symlinkSync(at('elsewhere'), at('linked.json.new'))
  const linked = saved('linked.json')
  symlinkSync(at('elsewhere'), at('linked.json.last'))
  saveWallet(at('linked.json'), linked)
  expect(readFileSync(at('elsewhere'), 'utf8')).toBe('')
  expect(loadWallet(at('linked.json'))?.seed).toEqual(SEED)
})

test('a file that others may read, a link and a folder are no wallet', () => {
  saved('open.json')
  for (const mode of [0o666, 0o640, 0o604]) {
    chmodSync(at('open.json'), mode)
    expect(String(failureOf(() => loadWallet(at('open.json'))))).toContain('chmod 600')
  }
  chmodSync(at('open.json'), 0o600)
  expect(loadWallet(at('open.json'))).toBeDefined()
  symlinkSync(at('open.json'), at('link.json'))
  for (const path of [at('link.json'), folder])
    expect(failureOf(() => loadWallet(path))).toBeInstanceOf(NotAWallet)
})

test('a state that would not load again is not written', () => {
  const wallet = saved('kept.json')
  wallet.counters(0).commands = Number.NaN
  expect(String(failureOf(() => saveWallet(at('kept.json'), wallet)))).toContain('state.keys[0].commands')
  wallet.counters(0).commands = 1
  wallet.state.notes.push({ ...noteOf(1), amount: 'much' })
  expect(failureOf(() => saveWallet(at('kept.json'), wallet))).toBeInstanceOf(NotWritten)
  expect(loadWallet(at('kept.json'))?.state.keys).toEqual([])
})

test('a save whose name does not reach the disk leaves the file before it, and the next save goes through', () => {
  const wallet = saved('named.json')
  const before = readFileSync(at('named.json'), 'utf8')
  wallet.counters(0).commands = 1
  const { fsyncSync } = fs
  let synced = 0
  const disk = spyOn(fs, 'fsyncSync').mockImplementation((file) => {
    // The folder, behind the file.
    if (++synced === 2) throw new Error('EIO')
    fsyncSync(file)
  })
  try {
    expect(failureOf(() => saveWallet(at('named.json'), wallet))).toBeInstanceOf(NotWritten)
  } finally {
    disk.mockRestore()
  }
  expect(readFileSync(at('named.json'), 'utf8')).toBe(before)
  saveWallet(at('named.json'), wallet)
  expect(loadWallet(at('named.json'))?.state.keys[0]?.commands).toBe(1)
})

test('a state in another form is refused by the place that is wrong, and the file stays', () => {
  saved('formed.json')
  const { seed, state } = JSON.parse(readFileSync(at('formed.json'), 'utf8'))
  const note = noteOf(1)
  const hash = note.commitment
  const payment = { id: hash, kind: 'reshape', key_index: 0, command: 0, inputs: [hash], amounts: ['1'] }
  const order = {
    ...{
      order_id: hash.slice(32),
      key_index: 0,
      command: 0,
      nonce: '1',
      anchor_count: 4,
      symbol: 'SOL-USDC',
    },
    side: 'buy',
    base_mint: note.mint,
    quote_mint: note.mint,
    base_decimals: 9,
    fee_bps: 5,
    open: true,
    price_limit: '1',
    collateral: hash,
    consumed: [hash],
    filled: '0',
    quote: '0',
    fee: '0',
  }
  const request = { id: hash, key_index: 0, after_seq: 0, kind: 'place', request: {} }
  const write = (change: object) => {
    const text = JSON.stringify({ version: 1, seed, state: { ...state, ...change } })
    writeFileSync(at('formed.json'), text)
    return text
  }
  const whole = {
    keys: [{ commands: 1, deposits: 0, cancels: 2 }],
    fees: [{ mint: note.mint, amount: '7' }],
    seq: 9,
  }
  write({ ...whole, notes: [note], orders: [order], payments: [payment], requests: [request] })
  expect(loadWallet(at('formed.json'))?.state.orders).toHaveLength(1)
  const negative = { commands: -1, deposits: 0, cancels: 0 }
  for (const [place, change] of [
    ['state.keys', { keys: undefined }],
    ['state.keys[0].commands', { keys: [negative] }],
    ['state.keys[1].cancels', { keys: [...whole.keys, { ...negative, commands: 1, cancels: 0.5 }] }],
    ['state.notes[0]', { notes: ['x'] }],
    ['state.notes[1].blinding', { notes: [note, { ...note, blinding: hash.slice(2) }] }],
    ['state.notes[0].state', { notes: [{ ...note, state: 'gone' }] }],
    ['state.notes[0].amount', { notes: [{ ...note, amount: '18446744073709551616' }] }],
    ['state.notes[0].leaf_index', { notes: [{ ...note, leaf_index: '1' }] }],
    ['state.orders[0].order_id', { orders: [{ ...order, order_id: hash }] }],
    ['state.orders[0].open', { orders: [{ ...order, open: 'no' }] }],
    ['state.orders[0].consumed[0]', { orders: [{ ...order, consumed: [null] }] }],
    ['state.orders[0].filled', { orders: [{ ...order, filled: '-1' }] }],
    ['state.payments[0].kind', { payments: [{ ...payment, kind: 'gift' }] }],
    ['state.payments[0].refund', { payments: [{ ...payment, refund: 'all' }] }],
    ['state.fees[0].mint', { fees: [{ mint: 'l0l', amount: '1' }] }],
    ['state.fees', { fees: {} }],
    ['state.seq', { seq: 'a' }],
    ['state.requests[0].kind', { requests: [{ ...request, kind: 'steal' }] }],
    ['state.requests[0].request', { requests: [{ ...request, request: null }] }],
  ] as const) {
    const text = write(change)
    const failure = failureOf(() => loadWallet(at('formed.json')))
    expect(failure, place).toBeInstanceOf(NotAWallet)
    expect(String(failure)).toStartWith(`NotAWallet: ${at('formed.json')} is damaged at ${place}: `)
    expect(readFileSync(at('formed.json'), 'utf8')).toBe(text)
  }
})

test('a save never undoes that of another program', async () => {
  saved('shared.json')
  const bot = loadWallet(at('shared.json'))!
  const command = program(
    `const wallet = loadWallet(path); wallet.counters(0).deposits++; saveWallet(path, wallet)`,
    at('shared.json'),
  )
  expect(await command.exited).toBe(0)
  bot.counters(0).commands++
  expect(failureOf(() => saveWallet(at('shared.json'), bot))).toBeInstanceOf(WalletChanged)
  expect(failureOf(() => saveWallet(at('shared.json'), new Wallet(SEED)))).toBeInstanceOf(WalletChanged)
  expect(loadWallet(at('shared.json'))!.state.keys).toEqual([{ commands: 0, deposits: 1, cancels: 0 }])
  saveWallet(at('shared.json'), bot, { replace: true })
  expect(loadWallet(at('shared.json'))!.counters(0).commands).toBe(1)
})

test('a locked file takes no save of another process, and a holder that is killed leaves no lock', async () => {
  saved('held.json')
  const holder = program(`lockFile(path); console.log('held'); setInterval(() => {}, 1_000)`, at('held.json'))
  await holder.stdout.getReader().read()
  const mine = loadWallet(at('held.json'))!
  expect(failureOf(() => saveWallet(at('held.json'), mine))).toBeInstanceOf(InUse)
  expect(failureOf(() => lockFile(at('held.json')))).toBeInstanceOf(InUse)
  holder.kill('SIGKILL')
  await holder.exited
  saveWallet(at('held.json'), mine)
  const release = lockFile(at('held.json'))
  expect(failureOf(() => lockFile(at('held.json')))).toBeInstanceOf(InUse)
  saveWallet(at('held.json'), mine)
  release()
  lockFile(at('held.json'))()
})

test('of many programs that start at once on the lock of a dead one, one holds it at a time', async () => {
  saved('raced.json')
  const dead = program(`lockFile(path); process.kill(process.pid, 'SIGKILL')`, at('raced.json'))
  await dead.exited
  const racers = Array.from({ length: 4 }, () =>
    program(
      `const go = new Promise((resolve) => process.once('SIGUSR2', resolve))
       process.stdout.write('ready ')
       await go
       try { lockFile(path); console.log('won') } catch (error) { console.log(error.name) }
       Bun.gc(true)
       setInterval(() => {}, 1_000)`,
      at('raced.json'),
    ),
  )
  const readers = racers.map((racer) => racer.stdout.getReader())
  await Promise.all(readers.map((reader) => reader.read()))
  for (const racer of racers) racer.kill('SIGUSR2')
  const said = await Promise.all(readers.map(async (reader) => String(await reader.read().then(text))))
  expect(said.toSorted()).toEqual(['InUse', 'InUse', 'InUse', 'won'])
  for (const racer of racers) racer.kill('SIGKILL')
})

test('without SQLite a file still has one holder in a process', () => {
  const modules = spyOn(process, 'getBuiltinModule')
  modules.mockImplementation(((name: string) => (name === 'node:path' ? path : undefined)) as never)
  try {
    const release = lockFile(at('plain.json'))
    expect(failureOf(() => lockFile(at('plain.json')))).toBeInstanceOf(InUse)
    saved('plain.json')
    release()
    lockFile(at('plain.json'))()
  } finally {
    modules.mockRestore()
  }
})

const text = ({ value }: { value?: Uint8Array | undefined }): string => new TextDecoder().decode(value).trim()

test('a program that is killed while it saves leaves a wallet that loads, with all that was reported saved', async () => {
  for (const password of ['', 'p']) {
    const path = at(`killed${password}.json`)
    const wallet = new Wallet(SEED)
    for (let number = 0; number < 250; number++) wallet.state.notes.push(noteOf(number))
    saveWallet(path, wallet, password === '' ? {} : { password })
    for (let round = 0; round < (password === '' ? 8 : 3); round++) {
      const saver = program(
        `const wallet = loadWallet(path, process.argv[2])
         for (;;) { wallet.counters(0).commands++; saveWallet(path, wallet); process.stdout.write(wallet.counters(0).commands + '\\n') }`,
        path,
        password,
      )
      const reader = saver.stdout.getReader()
      let text = new TextDecoder().decode((await reader.read()).value)
      await Bun.sleep(round * 3)
      saver.kill('SIGKILL')
      for (let part = await reader.read(); !part.done; part = await reader.read())
        text += new TextDecoder().decode(part.value)
      const reported = Number(/(\d+)\n[^\n]*$/.exec(text)?.[1])
      const left = loadWallet(path, password)!
      expect(left.state.notes.length).toBe(250)
      expect(left.counters(0).commands).toBeGreaterThanOrEqual(reported)
    }
  }
}, 180_000)

test.skipIf(!isMountable())('a full disk refuses the save and keeps the file before it', async () => {
  await withSmallVolume('400k', async (dir) => {
    const path = join(dir, 'wallet.json')
    const wallet = new Wallet(SEED)
    saveWallet(path, wallet)
    const giveBack = fillUp(dir)
    for (let number = 0; number < 200; number++) wallet.state.notes.push(noteOf(number))
    expect(failureOf(() => saveWallet(path, wallet))).toBeInstanceOf(NotWritten)
    expect(loadWallet(path)?.state.notes).toEqual([])
    giveBack()
    saveWallet(path, wallet)
    expect(loadWallet(path)?.state.notes.length).toBe(200)
  })
})

test('a seed is 24 words and back', () => {
  // Of the published vectors of BIP-39.
  const seed = fromHex('68a79eaca2324873eacc50cb9c6eca8cc68ea5d936f98787c60c7ebc74e6ce7c', 32)!
  const words =
    'hamster diagram private dutch cause delay private meat slide toddler razor book happy fancy gospel tennis maple dilemma loan word shrug inflict delay length'
  expect(wordsOfSeed(seed)).toBe(words)
  expect(seedOfWords(`  ${words.toUpperCase().replaceAll(' ', '\n')} `)).toEqual(seed)
  const swapped = words.replace('hamster diagram', 'diagram hamster')
  const twelve = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
  for (const wrong of ['', swapped, words.replace('maple', 'mapel'), twelve]) {
    const failure = failureOf(() => seedOfWords(wrong))
    expect(failure).toBeInstanceOf(NotSeedWords)
    expect(String(failure)).not.toContain('hamster')
  }
})

/** Runs a command of the wallet in the folder. */
function wallet(...args: string[]) {
  const command = [process.execPath, join(ROOT, 'client/cli/tacit.ts'), 'wallet', ...args]
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: folder })
  return { code: exitCode, out: stdout.toString(), error: stderr.toString() }
}
const keyIn = (out: string) => /trading key {2}(\S+)/.exec(out)?.[1]

test('a wallet is made from words, encrypted, backed up and restored by command', () => {
  for (const [name, content] of Object.entries({ password: 'p\n', other: 'q\n', empty: '\nx' }))
    writeFileSync(at(name), content, { mode: 0o600 })
  const created = wallet('create', '--seed-file', 'a.seed', '--wallet', 'a.json')
  expect(created).toMatchObject({ code: 0, error: '' })
  const words = wallet('words', '--seed-file', 'a.seed').out.replace(/\d/g, '')
  writeFileSync(at('words'), words, { mode: 0o600 })
  const lock = ['--password-file', 'password']
  const made = wallet(
    'create',
    '--seed-file',
    'b.seed',
    '--words-file',
    'words',
    '--wallet',
    'b.json',
    ...lock,
  )
  expect(keyIn(made.out)).toBe(keyIn(created.out))
  expect(readFileSync(at('b.seed'), 'utf8')).toBe(readFileSync(at('a.seed'), 'utf8'))

  expect(wallet('notes', '--wallet', 'b.json')).toMatchObject({
    code: 64,
    error: 'b.json is encrypted: give its password\n',
  })
  expect(wallet('notes', '--wallet', 'b.json', '--password-file', 'other').error).toContain('does not open')
  expect(wallet('notes', '--wallet', 'b.json', '--password-file', 'empty').error).toContain('empty line')
  expect(wallet('notes', '--wallet', 'b.json', ...lock)).toMatchObject({ code: 0, out: 'no notes\n' })

  expect(wallet('encrypt', '--wallet', 'a.json', ...lock).code).toBe(0)
  expect(readFileSync(at('a.json'), 'utf8')).not.toContain(readFileSync(at('a.seed'), 'utf8').trim())
  expect(wallet('backup', '--wallet', 'a.json', '--out', 'a.backup', ...lock).code).toBe(0)
  expect(wallet('backup', '--wallet', 'a.json', '--out', 'a.backup', ...lock)).toMatchObject({ code: 64 })
  expect(wallet('restore', '--backup', 'a.backup', '--wallet', 'a.json', ...lock)).toMatchObject({ code: 64 })
  expect(wallet('restore', '--backup', 'a.backup', '--wallet', 'c.json')).toMatchObject({ code: 64 })
  expect(wallet('restore', '--backup', 'a.backup', '--wallet', 'c.json', ...lock).code).toBe(0)
  expect(loadWallet(at('c.json'), 'p')?.seed).toEqual(loadWallet(at('a.json'), 'p')!.seed)

  const held = lockFile(at('c.json'))
  expect(wallet('backup', '--wallet', 'c.json', '--out', 'd.backup', ...lock)).toMatchObject({
    code: 64,
    error: 'another program uses c.json: wait for it to end\n',
  })
  held()
  writeFileSync(at('twelve'), 'legal winner thank year', { mode: 0o600 })
  const wrong = wallet('create', '--seed-file', 'e.seed', '--words-file', 'twelve')
  expect(wrong).toMatchObject({ code: 64, out: '' })
  expect(wrong.error).toContain('not the 24 words')
  chmodSync(at('words'), 0o644)
  expect(wallet('create', '--seed-file', 'e.seed', '--words-file', 'words').error).toContain('chmod 600')
})
