/** When a thread collects what it dropped. */
import { expect, jest, test } from 'bun:test'
import { collectWhenQuiet } from '../../../engine/memory/idle_gc'

test('a thread collects once after its work, and not while it works', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(0)
    for (let second = 0; second < 5; second++) {
      worked()
      jest.advanceTimersByTime(900)
    }
    expect(collected).toBe(0)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(1)
    worked()
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})

test('a thread that had much to do and goes on with a little collects, and not for the little alone', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    const second = (pieces: number) => {
      for (let piece = 0; piece < pieces; piece++) worked()
      jest.advanceTimersByTime(1_000)
    }
    for (let at = 0; at < 10; at++) second(1_000)
    expect(collected).toBe(0)
    second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 80; at++) second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 10; at++) second(3)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})
