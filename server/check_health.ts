/** The container's health check: the venue on this machine answers. It says nothing of whom it is; clients verify that. */
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
