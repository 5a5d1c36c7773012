/** Checks for the container runtime that the venue on this machine answers; clients verify its identity. */

const port = /:(\d+)$/.exec(process.env['TACIT_LISTEN'] ?? '')?.[1]
try {
  const answer = await fetch(`https://127.0.0.1:${port}/health`, {
    tls: { rejectUnauthorized: false },
    signal: AbortSignal.timeout(4_000),
  })
  process.exit(answer.ok ? 0 : 1)
} catch {
  process.exit(1)
}

export {}
