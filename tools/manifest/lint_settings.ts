/** Checks the values of the settings in a compose file with the code that reads them at boot. For operators only. */
import type { YamlMap } from '../../client/verify/manifest/plain_yaml'
import { checkConfig } from '../../engine/config'
import { version } from '../../package.json'
import { isSecretName, referenceTo } from '../../protocol/tdx/venue_manifest'
import { readConfig } from '../../server/settings/config'
import { isSettingName } from '../../server/settings/settings'

/** Placeholder for a value that the operator fills in. */
const UNSET = 'SET_ME'
/** Well-formed values in place of the secrets, so that the other settings can be checked. */
const SAMPLES: Readonly<Record<string, string>> = {
  TACIT_FEE_ANCHOR: `${'0'.repeat(63)}1`,
  TACIT_ACME_DNS_SECRET: 'user:password',
  TACIT_ETCD_KEY: 'AAAA',
}

/** @returns one line per error; the manifest's linter names unknown and missing settings. */
export function lintSettings(compose: string, environment: YamlMap): string[] {
  const faults: string[] = []
  if (/^ +image: +'?SET_ME/m.test(compose))
    faults.push(
      `image: still ${UNSET}; build and push it (docs/operations.md), then --set image=NAME@sha256:DIGEST`,
    )
  const judged: Record<string, string> = {}
  for (const [name, value] of environment) {
    if (value === UNSET) faults.push(`${name}: still ${UNSET}; fill it in with --set ${name}=VALUE`)
    else if (isSecretName(name) && value !== '' && value !== referenceTo(name))
      faults.push(`${name}: secret; write ${referenceTo(name)}, the manifest is public`)
    else if (isSettingName(name) && typeof value === 'string')
      judged[name] = value === referenceTo(name) ? (SAMPLES[name] ?? value) : value
  }
  // Parsing the rest would only repeat these errors.
  if (faults.length > 0) return faults
  const { config, faults: wrong } = readConfig(judged)
  if (config === undefined) return wrong ?? []
  const measured = { compose_hash: '0'.repeat(64), self_check_reasons: [] }
  return [...(wrong ?? []), ...checkConfig({ ...config.engine, ...measured, tacit_version: version })]
}
