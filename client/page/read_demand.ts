/** What the user asks for, read from the text of the form's fields. */
import type { Collateral } from '../../protocol/collateral'
import { COLLATERAL_FORM } from '../verify/bundle_file'
import type { VerificationPolicy } from '../verify/policy'
import { BARE_POLICY, parsePolicy } from '../verify/policy_file'
import { Refused } from '../verify/refused'
import { requireForm } from '../verify/require_form'

/** Exact text of each field, as typed, pasted or dropped. */
export type FormText = { url: string; policy: string; collateral: string; manifest: string }
export type Demand = {
  origin: URL
  policy: VerificationPolicy
  options: { collateral?: Collateral; app_compose?: string }
}

/** @throws Refused naming the field. An empty policy demands real, current hardware and pins nothing else. */
export function readDemand(text: FormText): Demand {
  const { collateral, manifest } = text
  return {
    origin: readOrigin(text.url.trim()),
    policy: isEmpty(text.policy) ? BARE_POLICY : parsePolicy(text.policy),
    options: {
      ...(isEmpty(collateral) ? {} : { collateral: readCollateral(collateral) }),
      // The hash is over the exact bytes, so nothing is trimmed.
      ...(isEmpty(manifest) ? {} : { app_compose: manifest }),
    },
  }
}

const isEmpty = (text: string): boolean => text.trim() === ''

function readOrigin(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:') throw new Refused('the venue is named by a URL that begins with https://')
  return url
}

function readCollateral(text: string): Collateral {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refused('the collateral is not JSON')
  }
  try {
    requireForm(value, COLLATERAL_FORM)
  } catch {
    throw new Refused('the collateral is not of the form the verifier reads')
  }
  return value as Collateral
}
