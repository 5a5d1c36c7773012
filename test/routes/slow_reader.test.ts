/** A peer that stops reading is closed, never silently skipped, and costs a bounded amount of memory. */
import { expect, test } from 'bun:test'
import { openMeters } from '../../routes/_meters'
import { OUTBOX_BYTES_MAX, openOutbox, type Transport } from '../../routes/_outbox'

/** Takes frames until `room` bytes are waiting in it, like a kernel buffer nobody empties. */
class StuckTransport implements Transport {
  sent: string[] = []
  buffered = 0
  drops = false
  room = Number.POSITIVE_INFINITY
  send(text: string): number {
    if (this.drops) return 0
    this.sent.push(text)
    if (this.room >= text.length) {
      this.room -= text.length
      return text.length
    }
    this.buffered += text.length
    return -1
  }
  getBufferedAmount = () => this.buffered
  cork = (send: () => void) => send()
  close(): void {}
  terminate(): void {}
}
const frame = (index: number) => `${index}`.padStart(1_000, '0')

function open(transport: StuckTransport) {
  let slow = 0
  const outbox = openOutbox(openMeters(), () => {
    slow += 1
  })
  outbox.attach(transport)
  return { outbox, slow: () => slow }
}

test('a reader that keeps up gets every frame in order', () => {
  const transport = new StuckTransport()
  const { outbox, slow } = open(transport)
  for (let index = 0; index < 5_000; index += 1) outbox.push(frame(index))
  expect(transport.sent).toEqual(Array.from({ length: 5_000 }, (_, index) => frame(index)))
  expect([slow(), outbox.isEmpty()]).toEqual([0, true])
})

test('frames wait while the transport is full and go on in order when it drains', () => {
  const transport = new StuckTransport()
  transport.room = 0
  const { outbox, slow } = open(transport)
  for (let index = 0; index < 2_000; index += 1) outbox.push(frame(index))
  expect(transport.sent.length).toBeLessThan(300)
  expect(outbox.isEmpty()).toBe(false)
  while (!outbox.isEmpty()) {
    transport.buffered = 0
    outbox.pump()
  }
  expect(transport.sent).toEqual(Array.from({ length: 2_000 }, (_, index) => frame(index)))
  expect(slow()).toBe(0)
})

test('beyond the bound the reader is too slow, once, and nothing more is kept', () => {
  const transport = new StuckTransport()
  transport.room = 0
  const { outbox, slow } = open(transport)
  const frames = Math.ceil(OUTBOX_BYTES_MAX / 1_000) + 1_000
  for (let index = 0; index < frames; index += 1) outbox.push(frame(index))
  expect(slow()).toBe(1)
  expect(outbox.isEmpty()).toBe(true)
  const before = transport.sent.length
  transport.buffered = 0
  outbox.pump()
  expect(transport.sent.length).toBe(before)
})

test('a frame the transport drops ends the socket instead of leaving a hole', () => {
  const transport = new StuckTransport()
  const { outbox, slow } = open(transport)
  transport.drops = true
  outbox.push(frame(0))
  outbox.push(frame(1))
  expect(slow()).toBe(1)
  expect(transport.sent).toEqual([])
})
