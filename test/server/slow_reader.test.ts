/** A peer that stops reading is closed, never silently skipped, and costs a bounded amount of memory. */
import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { openMeters } from '../../server/edge/meters'
import { OUTBOX_BYTES_MAX } from '../../server/limits'
import { openOutbox, type Transport } from '../../server/sockets/outbox'
import { openHarness, TOKEN } from '../kit/server/harness'
import { Stream } from '../kit/server/socket_site'
import { event } from '../routes/bodies'

/** Takes frames until `room` bytes are waiting in it, like a kernel buffer that is not read. */
class StuckTransport implements Transport {
  sendBytes = () => 0
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
  corks = 0
  cork(send: () => void): void {
    this.corks += 1
    send()
  }
  close(): void {}
  terminate(): void {}
}
/** Frames go out when the code that pushed them is done. */
const turnEnds = () => Promise.resolve()
const frame = (index: number) => `${index}`.padStart(1_000, '0')

function open(transport: StuckTransport) {
  let slow = 0
  const outbox = openOutbox(openMeters(), () => {
    slow += 1
  })
  outbox.attach(transport)
  return { outbox, slow: () => slow }
}

test('a reader that keeps up gets every frame in order', async () => {
  const transport = new StuckTransport()
  const { outbox, slow } = open(transport)
  for (let index = 0; index < 5_000; index += 1) outbox.push(frame(index))
  await turnEnds()
  expect(transport.sent).toEqual(Array.from({ length: 5_000 }, (_, index) => frame(index)))
  expect([slow(), outbox.isEmpty()]).toEqual([0, true])
})

test('the frames of one turn are one write', async () => {
  const transport = new StuckTransport()
  const { outbox } = open(transport)
  for (let index = 0; index < 10; index += 1) outbox.push(frame(index))
  expect(transport.sent).toEqual([])
  await turnEnds()
  expect([transport.sent.length, transport.corks]).toEqual([10, 1])
})

test('frames wait while the transport is full and go on in order when it drains', () => {
  const transport = new StuckTransport()
  transport.room = 0
  const { outbox, slow } = open(transport)
  for (let index = 0; index < 2_000; index += 1) outbox.push(frame(index))
  outbox.pump()
  expect(transport.sent.length).toBeLessThan(300)
  expect(outbox.isEmpty()).toBe(false)
  while (!outbox.isEmpty()) {
    transport.buffered = 0
    outbox.pump()
  }
  expect(transport.sent).toEqual(Array.from({ length: 2_000 }, (_, index) => frame(index)))
  expect(slow()).toBe(0)
})

test('a list of frames that fits in part goes on where it stopped, and other outboxes have it whole', async () => {
  const texts = Array.from({ length: 900 }, (_, index) => frame(index))
  const frames = { texts, bytes: 900_000 }
  const [stuck, free] = [new StuckTransport(), new StuckTransport()]
  stuck.room = 0
  const [slow, quick] = [open(stuck), open(free)]
  for (const { outbox } of [slow, quick]) {
    outbox.pushAll(frames)
    outbox.push(frame(900))
  }
  await turnEnds()
  expect(stuck.sent.length).toBeLessThan(300)
  expect(free.sent).toEqual([...texts, frame(900)])
  while (!slow.outbox.isEmpty()) {
    stuck.buffered = 0
    slow.outbox.pump()
  }
  expect(stuck.sent).toEqual(free.sent)
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

test('a frame the transport drops ends the socket instead of leaving a hole', async () => {
  const transport = new StuckTransport()
  const { outbox, slow } = open(transport)
  transport.drops = true
  outbox.push(frame(0))
  outbox.push(frame(1))
  await turnEnds()
  expect(slow()).toBe(1)
  expect(transport.sent).toEqual([])
})

test('over a real socket: sent frames stay whole, and 4408 comes last', async () => {
  const stream = new Stream()
  const harness = openHarness({ venue: stream.venue() })
  const greeted = Promise.withResolvers<void>()
  const peer = connect(harness.listener.port, '127.0.0.1', () => {
    const head = `GET /ws/orders?token=${TOKEN} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n`
    peer.write(`${head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`)
  })
  peer.once('data', () => {
    peer.pause()
    greeted.resolve()
  })
  await greeted.promise
  for (let seq = 1; stream.closed === 0 && seq < 200_000; seq += 1) {
    stream.tell(event(seq))
    if (seq % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  expect(stream.closed).toBe(1)
  let tail = Buffer.alloc(0)
  peer.on('data', (bytes: Buffer) => {
    tail = Buffer.concat([tail, bytes]).subarray(-64)
  })
  const ended = new Promise((resolve) => peer.on('close', resolve))
  peer.resume()
  harness.clock.ms += 6_000
  harness.app.sockets.tick()
  await ended
  // A close frame (RFC 6455, 5.5.1) with code 4408 behind the last whole frame: the reader knows from where to resume.
  const close_frame = Buffer.concat([
    Buffer.from([0x88, 10, 4408 >> 8, 4408 & 0xff]),
    Buffer.from('too slow'),
  ])
  expect(tail.subarray(-close_frame.length)).toEqual(close_frame)
  expect(tail.subarray(0, -close_frame.length).toString()).toEndWith('}}')
  expect(harness.app.sockets.count()).toBe(0)
  await harness.stop()
})
