/** What a path answers to the methods it does not take: 405 before any token is looked at, and OPTIONS with `Allow`. */
import { Refusal } from '../protocol/refusals'
import type { Answering } from './_answer'
import { commonHeaders, requestId } from './_headers'
import { problemResponse } from './_problem'
import type { Services } from './_services'

/** `methods` are those of the path's route files, lower case. */
export function otherMethods(methods: readonly string[], services: Services): Answering {
  const taken = methods.map((method) => method.toUpperCase())
  const allow = [...new Set([...taken, ...(taken.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])]
    .sort()
    .join(', ')
  return async ({ request }) => {
    const request_id = requestId(request)
    if (request.method === 'OPTIONS') {
      return new Response(null, { status: 204, headers: { ...commonHeaders(request_id), allow } })
    }
    return problemResponse(new Refusal('method_not_allowed'), request_id, services.meters, { allow })
  }
}
