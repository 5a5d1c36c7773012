/**
 * Some minutes of the simulation (`main.ts`): nothing breaks, a seed gives the same schedules again, and planted bugs are found.
 * TACIT_RUNS and TACIT_SEED make a longer campaign, or the same again.
 */
import { expect, test } from 'bun:test'
import { instrument, Life, run } from './awaits'

const RUNS = process.env['TACIT_RUNS'] ?? '10'
const SEED = process.env['TACIT_SEED'] ?? String(Date.now() % 1_000_000)

/** @returns output and end of the process */
async function simulate(
  args: string[],
  planted = '',
  script = 'main.ts',
): Promise<{ text: string; code: number }> {
  const command = [
    'bun',
    '--preload',
    './test/simulation/instrument.ts',
    `test/simulation/${script}`,
    ...args,
  ]
  const child = Bun.spawn(command, {
    env: { ...process.env, TACIT_PLANTED: planted },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  return { text: await new Response(child.stdout).text(), code: await child.exited }
}

test(`${RUNS} runs from seed ${SEED}, and a stop of everything at each await they come to`, async () => {
  const { text, code } = await simulate(['--runs', RUNS, '--seed', SEED])
  console.log(text)
  expect([code, text.includes('BROKEN')]).toEqual([0, false])
}, 7_200_000)

test.each(['chain', 'cluster'])(
  'a run on the vault program, and stops of everything at its rare awaits: %s',
  async (world) => {
    const { text, code } = await simulate(['--world', world, '--runs', '1', '--seed', '3'])
    console.log(text)
    expect([code, text.includes('BROKEN')]).toEqual([0, false])
  },
  3_600_000,
)

test('a seed gives the same schedules again', async () => {
  const plain = async () => {
    const { text } = await simulate(['--runs', '2', '--seed', SEED, '--trace'])
    return text.replaceAll(/[0-9a-f]{8,}|\S*wallet\S*|,"s":.*/g, '')
  }
  expect(await plain()).toBe(await plain())
}, 3_600_000)

test.each(['disk', 'wallet', 'closed'])(
  'a planted bug is found: %s',
  async (planted) => {
    const { text, code } = await simulate(['--runs', '3', '--seed', '7'], planted)
    const broken = text.split('\n').filter((line) => line.startsWith('BROKEN'))
    console.log(`${planted}: ${broken.join('; ')}`)
    expect([code, broken.length > 0]).toEqual([1, true])
  },
  600_000,
)

test('a rejection in a process that ended is not an error of the campaign', async () => {
  const code = instrument(`${import.meta.dir}/../../client/none.ts`, 'async (value) => { await value }')
  const ended = new Life()
  ended.end()
  run.current = () => ({ life: ended, side: 'client' })
  const unhandled: unknown[] = []
  const found = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', found)
  void new Function(`return ${code}`)()(Promise.reject(new Error('left')))
  await Bun.sleep(10)
  process.off('unhandledRejection', found)
  expect(unhandled).toEqual([])
})

test('a session on a chain that settles nothing passes over the events of others', async () => {
  expect((await simulate([], '', 'unsettled.ts')).code).toBe(0)
}, 600_000)
