/** The quote queue: one at a time, a short bound, and the venue's own quotes never rejected. */
import { afterEach, expect, test } from 'bun:test'
import { QuoteQueue } from '../../enclave/attestation'
import { type Machine, openMachine, openOn, VENUE } from './machine'

const LIMITS = { quote_waiting_max: 2, quote_wait_ms: 60_000 }

/** A task that ends on request, and the order in which tasks began. */
function tasks() {
  const began: string[] = []
  const begin = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const task = () => {
      began.push(name)
      return promise
    }
    return { task, end: () => resolve(name), fail: () => reject(new Error(name)) }
  }
  return { began, begin }
}

test('one runs at a time, the others wait in order', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { began, begin } = tasks()
  const [a, b, c] = [begin('a'), begin('b'), begin('c')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task)]
  expect(began).toEqual(['a'])
  a.end()
  await results[0]
  b.end()
  await results[1]
  c.end()
  expect(await results[2]).toBe('c')
  expect(began).toEqual(['a', 'b', 'c'])
})

test('beyond the bound a caller is told when to retry', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b, c, d] = [begin('a'), begin('b'), begin('c'), begin('d')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task)]
  const refused = await queue.run(d.task).catch((error) => error)
  expect(refused).toMatchObject({ code: 'quote_busy', status: 429 })
  expect(refused.facts.retry_after_ms).toBeGreaterThan(0)
  for (const task of [a, b, c]) task.end()
  expect(await Promise.all(results)).toEqual(['a', 'b', 'c'])
})

test("the venue's own quotes go first and are never refused", async () => {
  const queue = new QuoteQueue(LIMITS)
  const { began, begin } = tasks()
  const [a, b, c, own] = [begin('a'), begin('b'), begin('c'), begin('own')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task), queue.run(own.task, true)]
  for (const task of [a, own, b, c]) task.end()
  await Promise.all(results)
  expect(began).toEqual(['a', 'own', 'b', 'c'])
})

test('a failed quote lets the next one run', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  a.fail()
  b.end()
  await expect(first).rejects.toThrow('a')
  expect(await second).toBe('b')
})

test('who waited too long is refused, not served', async () => {
  const queue = new QuoteQueue({ quote_waiting_max: 2, quote_wait_ms: -1 })
  const { began, begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  a.end()
  await first
  await expect(second).rejects.toMatchObject({ code: 'quote_busy' })
  expect(began).toEqual(['a'])
})

test('closing refuses everyone who waits', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  queue.close()
  await expect(second).rejects.toMatchObject({ code: 'enclave_unavailable' })
  a.end()
  expect(await first).toBe('a')
})

let machine: Machine | undefined
afterEach(() => machine?.close())

test('an agent slower than the time limit is a refusal', async () => {
  machine = await openMachine()
  const enclave = await openOn(machine.agent, { limits: { quote_call_ms: 1_500 } })
  await enclave.bind({ venue: VENUE, epoch: 1, slot: () => 0 })
  machine.agent.knobs.quote_delay_ms = 10_000
  await expect(enclave.attestation('ab'.repeat(32))).rejects.toMatchObject({ code: 'enclave_unavailable' })
  await enclave.close()
})
