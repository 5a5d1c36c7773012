/** One provider lies, of two or of three: nothing false is done, the status names it, and the truth ends the matter. */
import { describe, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { readDeployment } from '../../../engine/chain/client/read_vault'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { pauseInstruction, unpauseInstruction } from '../../../protocol/vault/admin'
import { USDC } from '../../../sandbox/environment'
import * as lies from '../../kit/chain/lying_endpoint'
import { bendBatch, type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { expectLandedOnce, requestExitOf, VaultWorld } from '../../kit/chain/vault_world'

const mint = decodeBase58(USDC, 32)!
/** Answers of the liar until the alarm: of each loop at most one per slot and level, for the lag that is allowed. */
const LIES_MAX = 60
/** Each of two batches and a pause. */
const ROUNDS_MAX = 6

async function withLiar(
  providers: number,
  use: (world: VaultWorld, liar: LyingEndpoint) => Promise<void>,
): Promise<void> {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  try {
    const honest = new Array(providers - 1).fill(world.chain.url)
    await world.deposit(1_000n)
    await world.boot({ connect: { rpc_urls: [liar.url, ...honest], rpc_timeout_ms: 2_000 } })
    await use(world, liar)
    expect([...world.outbox.violations, ...world.sink.violations]).toEqual([])
    expect(Math.max(...world.sink.slots)).toBeLessThanOrEqual(world.chain.slot())
  } finally {
    await world.close()
    await liar.stop()
  }
}

const soon = () => new Promise((resolve) => setImmediate(resolve))
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await soon()
}
const reasons = (world: VaultWorld) => world.port.health().reasons
const alarmed = (world: VaultWorld, liar: LyingEndpoint) =>
  reasons(world).some((reason) => reason.startsWith('provider_') && reason.endsWith(liar.host))

async function settles(world: VaultWorld, count = 2): Promise<void> {
  for (let batch = 0; batch < count; batch++) world.outbox.add(world.nextPayload())
  const last = world.outbox.payloads.size
  await world.outbox.until(() => world.outbox.stageOf(last) === 'finalized')
}

/**
 * Some lies show only while batches land, others only while none does. Returns the rounds that this took: how often the provider
 * lies in one depends on the speed of the machine.
 */
async function untilNamed(world: VaultWorld, liar: LyingEndpoint): Promise<number> {
  for (let rounds = 1; ; rounds++) {
    const pause = Bun.sleep(1_500).then(() => true)
    while (!alarmed(world, liar)) if (await Promise.race([soon(), pause])) break
    if (alarmed(world, liar)) return rounds
    await settles(world)
  }
}

/** With the truth nothing remains: every batch landed once and was recorded as it landed, no halt, no alarm. */
async function expectRecovered(world: VaultWorld, liar: LyingEndpoint): Promise<void> {
  liar.lies = {}
  await settles(world, 1)
  await until(() => reasons(world).length === 0)
  await expectLandedOnce(world, world.outbox.payloads.size)
  for (const { batch_id, stage, slot, signature } of world.outbox.stages) {
    if (stage === 'submitted') expect(world.outbox.stageOf(batch_id)).not.toBe('submitted')
    else expect(slot).toBe(world.chain.machine.store.transaction(encodeBase58(signature))!.slot)
  }
  expect([...world.sink.standing]).toEqual([])
}

type Kind = [name: string, make: () => Record<string, Lie>]
const ON_BATCHES: Kind[] = [
  ['a frozen vault', lies.frozen],
  ['an advanced head', lies.advancedHead],
  ['slots a million ahead', lies.farSlot],
  ['stale accounts', lies.stale],
  ['old accounts as new ones', lies.missingDeposit],
  ['landed transactions that are not found', lies.notFound],
  ['a forged transaction error', lies.forgedError],
  ['invented leaves', lies.inventedLeaves],
  ['another root', lies.forgedRoot],
  ['a batch less', lies.lowerBatch],
  ['other transactions than those that landed', lies.forgedTransactions],
]
/** With these a quorum of two cannot know which transactions landed. */
const HOLD_UP_TWO = [
  lies.stale,
  lies.missingDeposit,
  lies.notFound,
  lies.lowerBatch,
  lies.forgedTransactions,
] as unknown[]

describe('one lying of three', () => {
  test.each(ON_BATCHES)(
    '%s: batches land, it is named, alone',
    async (_, make) => {
      await withLiar(3, async (world, liar) => {
        await settles(world)
        liar.lies = make()
        await settles(world)
        const rounds = await untilNamed(world, liar)
        expect(rounds).toBeLessThanOrEqual(ROUNDS_MAX)
        expect(reasons(world).every((reason) => reason.endsWith(liar.host))).toBe(true)
        expect(world.sink.halts).toEqual([])
        await expectRecovered(world, liar)
        // No batch was taken back, as after a fork.
        const submitted = world.outbox.stages.filter(({ stage }) => stage === 'submitted')
        expect(submitted).toHaveLength(world.outbox.payloads.size)
      })
    },
    120_000,
  )

  test('invented leaves: a real deposit counts all the same', async () => {
    await withLiar(3, async (world, liar) => {
      await world.sink.until(() => world.sink.told.length === 1)
      liar.lies = lies.inventedLeaves()
      await until(() => liar.lied > 0)
      await world.deposit(2_000n)
      await world.sink.until(() => world.sink.told.length === 2)
      await expectRecovered(world, liar)
    })
  }, 120_000)

  test('a missing deposit: it counts all the same', async () => {
    await withLiar(3, async (world, liar) => {
      await world.sink.until(() => world.sink.told.length === 1)
      liar.lies = lies.missingDeposit()
      await until(() => liar.lied > 0)
      await world.deposit(2_000n)
      await world.sink.until(() => world.sink.told.length === 2)
      await until(() => alarmed(world, liar))
      await expectRecovered(world, liar)
    })
  }, 120_000)

  test('a hidden exit: it counts, at both levels', async () => {
    await withLiar(3, async (world, liar) => {
      liar.lies = lies.hiddenExits()
      await requestExitOf(world, 5_000n)
      await world.sink.until(() => world.sink.exits.some(({ stage }) => stage === 'finalized'))
      await until(() => alarmed(world, liar))
      expect(liar.lied).toBeLessThan(LIES_MAX)
      await expectRecovered(world, liar)
    })
  }, 120_000)

  test('an invented exit: the engine is asked whether it holds the note, and nothing else happens', async () => {
    await withLiar(3, async (world, liar) => {
      await world.sink.until(() => world.sink.told.length === 1)
      const asked: string[] = []
      world.sink.holds = ({ stage }) => asked.push(stage) === 0
      liar.lies = lies.inventedExit(world.program, world.sink.told[0]!, mint)
      await until(() => alarmed(world, liar) && asked.length > 2)
      expect(new Set(asked)).toEqual(new Set(['confirmed']))
      expect(world.sink.exits).toEqual([])
      await expectRecovered(world, liar)
    })
  }, 120_000)

  test('an exit with another destination, shown first, is replaced by that of the quorum', async () => {
    const world = await VaultWorld.open()
    const [liar, slow] = [new LyingEndpoint(world.chain.url), new LyingEndpoint(world.chain.url)]
    liar.lies = lies.bentExits()
    const { getProgramAccounts: hide } = lies.hiddenExits()
    slow.lies = {
      getProgramAccounts: (result, call) =>
        world.sink.exits.length === 0 || JSON.stringify(call.params[1]).includes('confirmed')
          ? hide!(result, call)
          : undefined,
    }
    await world.boot({ connect: { rpc_urls: [liar.url, slow.url, slow.url] } })
    const { destination } = await requestExitOf(world, 5_000n)
    await world.sink.until(() => world.sink.exits.some(({ stage }) => stage === 'finalized'))
    expect(world.sink.exits.map(({ stage }) => stage)).toEqual(['confirmed', 'vanished', 'finalized'])
    expect(toHex(world.sink.exits[2]!.destination)).toBe(toHex(destination))
    await world.close()
    await Promise.all([liar.stop(), slow.stop()])
  }, 120_000)

  test('silence: nothing changes but the alarm, and a provider that hangs holds nothing up', async () => {
    await withLiar(3, async (world, liar) => {
      liar.silent = true
      await settles(world)
      await until(() => alarmed(world, liar))
      expect(reasons(world)).toEqual([`provider_silent: ${liar.host}`])
      liar.silent = false
      liar.hanging = true
      const begun = liar.calls
      await settles(world)
      // Each loop, those of payments and of exits' ends too, has one call of each sort under way at a time.
      expect(liar.calls - begun).toBeLessThan(LIES_MAX * 5)
      liar.hanging = false
      await expectRecovered(world, liar)
    })
  }, 120_000)
})

describe('one lying of two', () => {
  test.each(ON_BATCHES.filter(([, make]) => !HOLD_UP_TWO.includes(make)))(
    '%s: no halt, batches land',
    async (_, make) => {
      await withLiar(2, async (world, liar) => {
        await settles(world)
        liar.lies = make()
        world.outbox.add(world.nextPayload())
        await until(() => alarmed(world, liar))
        expect(liar.lied).toBeLessThan(LIES_MAX * 3)
        expect(world.sink.halts).toEqual([])
        await expectRecovered(world, liar)
      })
    },
    120_000,
  )

  test.each(ON_BATCHES.filter(([, make]) => HOLD_UP_TWO.includes(make)))(
    '%s: settlement waits, the status says so, and goes on by itself',
    async (_, make) => {
      await withLiar(2, async (world, liar) => {
        await settles(world)
        liar.lies = make()
        world.outbox.add(world.nextPayload())
        await until(() => alarmed(world, liar))
        const from = world.chain.slot()
        await until(() => world.chain.slot() > from + 330)
        await until(() => reasons(world).includes('batch_delayed'))
        expect(world.outbox.stageOf(3)).not.toBe('finalized')
        expect(world.sink.halts).toEqual([])
        await expectRecovered(world, liar)
      })
    },
    120_000,
  )

  test('a missing deposit waits for the truth', async () => {
    await withLiar(2, async (world, liar) => {
      await world.sink.until(() => world.sink.told.length === 1)
      liar.lies = lies.missingDeposit()
      await until(() => liar.lied > 0)
      await world.deposit(2_000n)
      await until(() => alarmed(world, liar))
      expect(world.sink.told).toHaveLength(1)
      liar.lies = {}
      await world.sink.until(() => world.sink.told.length === 2)
      await expectRecovered(world, liar)
    })
  }, 120_000)

  test('a hidden exit freezes its note; it is packed only with the truth', async () => {
    await withLiar(2, async (world, liar) => {
      liar.lies = lies.hiddenExits()
      await requestExitOf(world, 5_000n)
      await world.sink.until(() => world.sink.exits.length === 1)
      await until(() => alarmed(world, liar))
      expect(world.sink.exits.map(({ stage }) => stage)).toEqual(['confirmed'])
      liar.lies = {}
      await world.sink.until(() => world.sink.exits.length === 2)
      expect(world.sink.exits[1]!.stage).toBe('finalized')
      await expectRecovered(world, liar)
    })
  }, 120_000)
})

describe('the only provider lies', () => {
  test.each([
    ['a frozen vault', 'vault_frozen', lies.frozen],
    ['a verdict of the program', 'program_error', lies.forgedError],
  ] as const)(
    '%s stops with %s, and the truth lifts it',
    async (_, reason, make) => {
      await withLiar(1, async (world, liar) => {
        await settles(world)
        liar.lies = { ...make(), sendTransaction: () => 'dropped' }
        world.outbox.add(world.nextPayload())
        await world.sink.until(() => world.sink.standing.has(reason))
        liar.lies = {}
        await world.sink.until(() => !world.sink.standing.has(reason))
        await expectRecovered(world, liar)
        expect(world.sink.halts).toEqual([reason])
      })
    },
    120_000,
  )

  test.each([
    [
      'a batch nobody settled',
      'rolled_back',
      () => ({ getMultipleAccounts: (it: unknown) => bendBatch(it, (last) => last + 5) }),
    ],
    ['another instance', 'forked', () => lies.forgedError(7051)],
  ] as const)(
    '%s stops with %s until a restart',
    async (_, reason, make) => {
      await withLiar(1, async (world, liar) => {
        await settles(world)
        liar.lies = { ...make(), sendTransaction: () => 'dropped' }
        world.outbox.add(world.nextPayload())
        await world.sink.until(() => world.sink.halts.length > 0)
        expect(world.sink.halts).toEqual([reason])
        await world.port.close()
        liar.lies = {}
        world.sink.standing.clear()
        await world.boot({ connect: { rpc_urls: [liar.url] } })
        await expectRecovered(world, liar)
        expect(world.sink.halts).toEqual([reason])
      })
    },
    120_000,
  )

  test('a blockhash that is dead, or lives endlessly, is not signed with', async () => {
    await withLiar(1, async (world, liar) => {
      const heights = [1, 1_000_000_000]
      liar.lies = {
        getLatestBlockhash() {
          const lastValidBlockHeight = heights.shift()
          if (lastValidBlockHeight === undefined) return undefined
          const blockhash = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
          return { context: { slot: 1 }, value: { blockhash, lastValidBlockHeight } }
        },
      }
      await settles(world, 1)
      expect(heights).toEqual([])
      expect(world.outbox.signings).toHaveLength(1)
    })
  }, 120_000)

  test.each([
    ['a budget error', { InstructionError: [0, 'ComputationalBudgetExceeded'] }, 'transaction_failing'],
    ['a fee that is not covered', 'InsufficientFundsForFee', 'fee_payer_low'],
  ])(
    '%s is no verdict: the batch is signed again until it lands, and the status says so',
    async (_, err, reason) => {
      await withLiar(1, async (world, liar) => {
        liar.lies = {
          ...lies.forgedError(),
          sendTransaction: () => 'dropped',
          getSignatureStatuses(result) {
            const { context, value } = result as { context: { slot: number }; value: unknown[] }
            const status = { slot: context.slot, confirmations: null, err, status: { Err: err } }
            return { context, value: value.map(() => ({ ...status, confirmationStatus: 'finalized' })) }
          },
        }
        world.outbox.add(world.nextPayload())
        await world.outbox.until(() => world.outbox.signings.length > 2)
        await until(() => reasons(world).includes(reason))
        expect(world.sink.halts).toEqual([])
        await expectRecovered(world, liar)
      })
    },
    120_000,
  )
})

test.each([
  ['the chain moved on', 7053, 'finalized'],
  ['the batch was overtaken', 7052, 'finalized'],
  ['the vault is paused', 7020, 'finalized'],
  ['a verdict that is not final', 7061, 'confirmed'],
] as const)(
  '%s: no verdict on the batch',
  async (_, code, level) => {
    await withLiar(1, async (world, liar) => {
      const { lied } = liar
      liar.lies = { ...lies.forgedError(code, level), sendTransaction: () => 'dropped' }
      world.outbox.add(world.nextPayload())
      await until(() => liar.lied > lied + 5)
      expect(world.sink.halts).toEqual([])
      await expectRecovered(world, liar)
    })
  },
  120_000,
)

test('the config that a boot reads is one that a quorum shows', async () => {
  await withLiar(1, async (world, liar) => {
    liar.lies = lies.frozen()
    const honest = world.chain.url
    const { config } = await readDeployment([liar.url, honest, honest], world.program)
    expect(config.frozen).toBe(false)
    const two = await readDeployment([liar.url, honest], world.program).catch((error: Error) => error.message)
    expect(two).toContain('do not agree')
  })
}, 120_000)

test('a batch that was declared rejected and shows as landed lifts the halt', async () => {
  await withLiar(1, async (world, liar) => {
    const landed = lies.lowerBatch()
    liar.lies = { ...lies.forgedError(), ...landed }
    world.outbox.add(world.nextPayload())
    await world.sink.until(() => world.sink.standing.has('program_error'))
    liar.lies = { ...lies.forgedError() }
    await world.sink.until(() => !world.sink.standing.has('program_error'))
    await expectRecovered(world, liar)
  })
}, 120_000)

test('an anchor is sent although the only provider shows a position far ahead', async () => {
  await withLiar(1, async (world, liar) => {
    liar.lies = lies.advancedHead()
    const { seq, head } = world.outbox.head()
    await world.port.anchor(seq, { seq, head })
    const honest = await readDeployment([world.chain.url], world.program)
    expect(honest.config.journal_seq).toBe(seq)
  })
}, 120_000)

test('a provider that drops transactions holds nothing up while a send-only endpoint takes them', async () => {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  liar.lies = { sendTransaction: () => 'dropped' }
  await world.boot({ connect: { rpc_urls: [liar.url], rpc_send_urls: [world.chain.url] } })
  await world.deposit(1_000n)
  await settles(world)
  await expectLandedOnce(world, 2)
  await world.close()
  await liar.stop()
}, 120_000)

test('a pause that ends while the liar shows another state is lifted by the quorum', async () => {
  await withLiar(3, async (world, liar) => {
    const admin = await createKeyPairSignerFromPrivateKeyBytes(world.chain.admin_seed)
    const fields = { program: world.program, admin: decodeBase58(admin.address, 32)! }
    liar.lies = lies.missingDeposit()
    await until(() => liar.lied > 5)
    await world.send(admin, toInstruction(pauseInstruction(fields), [admin]))
    await world.sink.until(() => world.sink.standing.has('vault_paused'))
    liar.lies = lies.missingDeposit()
    await world.send(admin, toInstruction(unpauseInstruction(fields), [admin]))
    await world.sink.until(() => !world.sink.standing.has('vault_paused'))
    await expectRecovered(world, liar)
  })
}, 120_000)
