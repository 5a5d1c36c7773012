/** A JSON-RPC endpoint of the embedded chain that passes everything, and while muted no transaction. */

export class MutedRpc {
  muted = false
  private readonly server: ReturnType<typeof Bun.serve>

  constructor(chain_url: string) {
    this.server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const body = await request.text()
        if (this.muted && body.includes('"sendTransaction"')) return new Response('', { status: 503 })
        return fetch(chain_url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  async stop(): Promise<void> {
    await this.server.stop(true)
  }
}
