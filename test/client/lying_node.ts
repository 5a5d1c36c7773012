/** A JSON-RPC endpoint that passes every call on and changes the answers of chosen methods. */
type Lie = (result: unknown, params: unknown[]) => unknown

export class LyingNode {
  private readonly server: Bun.Server<undefined>
  /** By method; without one the answer is the truth. */
  lies: Record<string, Lie> = {}
  /** In place of every answer. */
  instead: (() => Response) | undefined
  /** The answer where a lie throws. */
  failure = (): Response => new Response('', { status: 500 })

  /** @param hostname of loopback: nodes of one policy are at different hosts */
  constructor(truth_url: string, hostname = '127.0.0.1') {
    this.server = Bun.serve({
      hostname,
      port: 0,
      fetch: async (request) => {
        const body = await request.text()
        if (this.instead !== undefined) return this.instead()
        const headers = { 'content-type': 'application/json' }
        const told = await fetch(truth_url, { method: 'POST', headers, body })
        const answer = (await told.json()) as { result: unknown }
        const { method, params } = JSON.parse(body) as { method: string; params: unknown[] }
        const lie = this.lies[method]
        if (lie === undefined || answer.result === undefined) return Response.json(answer)
        try {
          return Response.json({ ...answer, result: lie(answer.result, params) })
        } catch {
          return this.failure()
        }
      },
    })
  }

  get url(): string {
    return this.server.url.href
  }
  stop(): Promise<void> {
    return this.server.stop(true)
  }
}
