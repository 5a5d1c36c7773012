/** A JSON-RPC endpoint that passes every call on and changes the answers of chosen methods. */
type Lie = (result: unknown) => unknown

export class LyingNode {
  private readonly server: Bun.Server<undefined>
  /** By method; without one the answer is the truth. */
  lies: Record<string, Lie> = {}

  constructor(truth_url: string) {
    this.server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => {
        const body = await request.text()
        const headers = { 'content-type': 'application/json' }
        const told = await fetch(truth_url, { method: 'POST', headers, body })
        const answer = (await told.json()) as { result: unknown }
        const lie = this.lies[(JSON.parse(body) as { method: string }).method]
        return Response.json(lie === undefined ? answer : { ...answer, result: lie(answer.result) })
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
