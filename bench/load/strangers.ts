/** Connections of strangers who attack the reader of ClientHellos, from a separate process; bounded in number and rate. */
import { connect, type Socket } from 'node:net'
import { answerQuestions } from '../kit/child_process'

export const ATTACKS = ['one_byte', 'one_byte_records', 'records', 'never_ending', 'garbage', 'idle'] as const
type Attack = (typeof ATTACKS)[number]
export type AttackPlan = {
  attack: Attack
  port: number
  strangers: number
  writes_per_second: number
  arrivals_per_second: number
}
export type AttackDone = { connections: number; writes: number; bytes: number }

const TICK_MS = 5
const HELLO_BYTES = 16_384
const NOTHING = new Uint8Array(0)

/** The bytes of a ClientHello of 16 KB in one extension, without record headers. */
function longHello(): Uint8Array {
  const hello = new Uint8Array(HELLO_BYTES)
  const view = new DataView(hello.buffer)
  view.setUint32(0, (1 << 24) | (HELLO_BYTES - 4))
  hello.set([3, 3], 4)
  hello.set([0, 0, 2, 0x13, 1, 1, 0], 38)
  view.setUint16(45, HELLO_BYTES - 47)
  view.setUint16(47, 21)
  view.setUint16(49, HELLO_BYTES - 51)
  return hello
}

/** The same in records of `size` bytes. */
function recordsOf(hello: Uint8Array, size: number): Uint8Array {
  const parts: Uint8Array[] = []
  for (let at = 0; at < hello.length; at += size) {
    const part = hello.subarray(at, at + size)
    parts.push(Uint8Array.of(22, 3, 1, part.length >> 8, part.length & 0xff), part)
  }
  return Buffer.concat(parts)
}

/** Sent at once, then `drip` bytes at each write until `script` ends; then a new connection follows. */
type Script = { script: Uint8Array; at_once: number; drip: number }

function scriptOf(attack: Attack): Script {
  const long = recordsOf(longHello(), HELLO_BYTES / 64)
  switch (attack) {
    case 'one_byte':
      return { script: long, at_once: 0, drip: 1 }
    case 'one_byte_records':
      return { script: recordsOf(longHello().subarray(0, 5_440), 1), at_once: 5_000 * 6, drip: 6 }
    case 'records':
      return { script: long, at_once: long.length, drip: 1 }
    case 'never_ending':
      return { script: long.subarray(0, -1), at_once: 8_192, drip: 1 }
    case 'garbage':
      return { script: crypto.getRandomValues(new Uint8Array(1_024)), at_once: 1_024, drip: 1 }
    case 'idle':
      return { script: NOTHING, at_once: 0, drip: 1 }
  }
}

type Lane = { socket: Socket | undefined; at: number }
let stop: (() => AttackDone) | undefined

answerQuestions({
  /** The rates bound the strangers together. */
  start({ attack, port, strangers, writes_per_second, arrivals_per_second }: AttackPlan) {
    const { script, at_once, drip } = scriptOf(attack)
    const done: AttackDone = { connections: 0, writes: 0, bytes: 0 }
    const open: Lane[] = []
    const send = (lane: Lane, count: number) => {
      const part = script.subarray(lane.at, lane.at + count)
      lane.at += part.length
      done.writes += 1
      done.bytes += part.length
      if (part.length > 0) lane.socket?.write(part)
    }
    const arrive = (lane: Lane) => {
      const socket = connect(port, '127.0.0.1')
      socket.setNoDelay(true)
      socket.on('error', () => undefined)
      // The answer of a decided hello is read, so that the front has to pass it on.
      socket.on('data', () => undefined)
      lane.socket = socket
      lane.at = 0
      done.connections += 1
      send(lane, at_once)
    }
    let [next, writes, arrivals] = [0, 0, 0]
    const timer = setInterval(() => {
      writes = Math.min(writes + (writes_per_second * TICK_MS) / 1_000, writes_per_second)
      arrivals = Math.min(arrivals + (arrivals_per_second * TICK_MS) / 1_000, arrivals_per_second)
      for (let turn = 0; turn < strangers && writes >= 1; turn += 1) {
        const lane = open[next] ?? { socket: undefined, at: 0 }
        open[next] = lane
        next = (next + 1) % strangers
        if (lane.socket === undefined || lane.socket.destroyed) {
          if (arrivals < 1) continue
          arrivals -= 1
          arrive(lane)
        } else if (lane.at < script.length) {
          writes -= 1
          send(lane, drip)
        } else if (attack !== 'idle') lane.socket.destroy()
      }
    }, TICK_MS)
    stop = () => {
      clearInterval(timer)
      for (const { socket } of open) socket?.destroy()
      return done
    }
  },
  stop: () => stop!(),
})
