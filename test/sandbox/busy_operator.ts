/** Preloaded by a venue's process: the first calls of its operator find a venue that lost its lease for a moment. */
import { Refusal } from '../../protocol/refusals'

const REFUSED = 3
const reached = globalThis.fetch
let calls = 0
globalThis.fetch = Object.assign(
  async (...given: Parameters<typeof fetch>): Promise<Response> => {
    if (new URL(String(given[0])).pathname !== '/accounts' || ++calls > REFUSED) return reached(...given)
    const { code, applied } = new Refusal('lease_lost')
    console.log(`refused call ${calls}`)
    return Response.json({ status: 503, code, applied }, { status: 503 })
  },
  { preconnect: reached.preconnect },
)
