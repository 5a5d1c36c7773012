/** The pinned connection a verified venue gives; everything the trading client sends goes through it. */
export type Transport = {
  /** HTTPS origin without a trailing slash. */
  readonly base_url: string
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Opens a wss stream on the same pinned key. */
  webSocket(path: string): WebSocket
}
