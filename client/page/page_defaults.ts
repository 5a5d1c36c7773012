/** What a served page begins with: public facts only, since every program of the machine can read them. */
export type PageDefaults = {
  /** HTTPS origin of the venue. */
  url: string
  /** Text of the policy file. */
  policy: string
  /** Text of the collateral's file; empty: the policy's service is asked. */
  collateral: string
  /** Node of the trader's choice. */
  rpc_url: string
  /** The server beside the page admits new accounts, and the chain gives test money. */
  is_laptop: boolean
}

/** Undefined on a page without a server. */
export function pageDefaults(): PageDefaults | undefined {
  const text = document.getElementById('defaults')?.textContent
  return text === undefined || text === null ? undefined : (JSON.parse(text) as PageDefaults)
}
