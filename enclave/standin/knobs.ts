/** The stand-in agent's failure knobs: each makes it misbehave the way a real machine can. Read at every request. */
export type StandInKnobs = {
  /** Delay of each quote; quotes are serialised, as on hardware. */
  quote_delay_ms: number
  /** Methods that answer 400. */
  failing_methods: string[]
  /** Quotes of a machine whose memory the host can read. */
  debug: boolean
  /** The machine booted another manifest than the agent states. */
  wrong_compose_hash: boolean
  /** The platform runs an outdated TDX module. */
  out_of_date: boolean
  /** TCB info, QE identity and revocation lists ended a month ago. */
  expired_collateral: boolean
  /** The platform's PCK certificate is on the revocation list. */
  revoked_pck: boolean
}

export const NO_FAULTS: StandInKnobs = {
  quote_delay_ms: 0,
  failing_methods: [],
  debug: false,
  wrong_compose_hash: false,
  out_of_date: false,
  expired_collateral: false,
  revoked_pck: false,
}
