/** Verifies the venue before a word is said to it, and shows that another build is refused. */
import { readFileSync } from 'node:fs'
import type { Collateral } from '../../protocol/collateral'
import { connect } from '../connect'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import type { VerificationPolicy } from '../verify/policy'
import { parsePolicy } from '../verify/policy_file'
import { transcriptText } from '../verify/transcript'
import { check, DemoFailed } from './report'
import type { LaptopFacts } from './venue_process'

/** What this demo demands: this very build, under the development root. */
export function demoPolicy(facts: LaptopFacts): VerificationPolicy {
  return parsePolicy(readFileSync(facts.policy, 'utf8'))
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
