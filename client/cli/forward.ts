/** Posts the account's events to a receiver, each until it is taken, and keeps the position. */
import { existsSync } from 'node:fs'
import type { AccountEvent } from '../../protocol/wire/trading'
import { FORWARD_ANSWER_MS, STREAM_RETRY_FIRST_MS, STREAM_RETRY_MAX_MS } from '../limits'
import type { Session } from '../session/session'
import { writeWhole } from '../whole_file'
import type { Call } from './call'
import { InputFault, readInputText } from './command'

export const FORWARDING = '[--forward-to URL]'

/**
 * Forwards every event after the last one that was taken. After a lost answer a receiver gets an event twice: the same
 * `seq` marks it. None is left out.
 * @throws InputFault, NotWritten, VenueProblem
 */
export async function forward(call: Call, session: Session, url: string): Promise<void> {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new InputFault('--forward-to is an http or https address')
  const path = `${call.text('wallet')}.forwarded`
  for (let after = positionIn(path); ; ) {
    const { items } = await session.client.events({ after, limit: 100 })
    if (items.length === 0) return
    for (const event of items) {
      await post(url, event)
      after = event.seq
      writeWhole(path, `${after}\n`, 0o600)
    }
  }
}

function positionIn(path: string): number {
  if (!existsSync(path)) return 0
  const text = readInputText(path).trim()
  if (!/^\d{1,15}$/.test(text)) throw new InputFault(`${path} does not hold the seq of an event`)
  return Number(text)
}

async function post(url: string, event: AccountEvent): Promise<void> {
  const body = JSON.stringify(event)
  for (let wait_ms = STREAM_RETRY_FIRST_MS; ; wait_ms = Math.min(2 * wait_ms, STREAM_RETRY_MAX_MS)) {
    try {
      const headers = { 'content-type': 'application/json' }
      const signal = AbortSignal.timeout(FORWARD_ANSWER_MS)
      const { ok, status } = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'error' })
      if (ok) return
      console.error(`${new URL(url).host} answers ${status} to event ${event.seq}: it is sent again`)
    } catch {
      console.error(`${new URL(url).host} does not answer event ${event.seq}: it is sent again`)
    }
    await new Promise((done) => setTimeout(done, wait_ms))
  }
}
