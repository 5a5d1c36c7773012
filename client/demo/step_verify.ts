/** Verifies the venue before a word is said to it, and shows that another build is refused. */
import { readFileSync } from 'node:fs'
import type { Collateral } from '../../protocol/collateral'
import { connect } from '../connect'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import type { VerificationPolicy } from '../verify/policy'
import { BARE_POLICY } from '../verify/policy_file'
import { transcriptText } from '../verify/transcript'
import { check, DemoFailed } from './report'
import type { LaptopFacts } from './venue_process'

/** What this demo demands: this very build, under the development root that only a demo names. */
export function demoPolicy(facts: LaptopFacts): VerificationPolicy {
  return {
    ...BARE_POLICY,
    compose_hashes: [facts.compose_hash],
    // The manifest of a laptop runs no image, which the linter refuses: its text is not put forward as a deployment's.
    permitted_skips: ['os_image', 'manifest', 'kms'],
    roots_pem: readFileSync(facts.root_pem, 'utf8'),
    chain: {
      rpc_url: facts.rpc_url,
      program_id: facts.program_id,
      upgrade_authorities: [],
      pending_actions: [],
      paused_allowed: false,
    },
  }
}

function collateralOf(facts: LaptopFacts): Collateral {
  return JSON.parse(readFileSync(facts.collateral, 'utf8')) as Collateral
}

export async function verifyVenue(facts: LaptopFacts): Promise<VerifiedVenue> {
  const venue = await connect(facts.url, demoPolicy(facts), { collateral: collateralOf(facts) })
  for (const line of transcriptText(venue.transcript).split('\n')) console.log(`   ${line}`)
  return venue
}

/** A policy that pins another compose hash must be refused, and for that reason. */
export async function refuseOtherBuild(facts: LaptopFacts): Promise<void> {
  const policy = { ...demoPolicy(facts), compose_hashes: ['00'.repeat(32)] }
  try {
    await connect(facts.url, policy, { collateral: collateralOf(facts) })
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const failed = error.transcript.checks.filter((one) => one.result === 'fail').map((one) => one.name)
    check(failed.includes('compose_hash'), 'a wrong compose hash is refused', failed.join(', '))
    return
  }
  throw new DemoFailed('a wrong compose hash was accepted')
}
