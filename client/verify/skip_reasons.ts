/** States the reasons for which a check is skipped. A policy permits a skip by its reason, never by the name of a check. */
import { Refused } from './transcript'

/**
 * Codes are stable. A reason says what the policy or the caller does not name, or what the platform hides: a machine cannot
 * turn a failing check into a skip that the policy permits for another reason.
 */
export const SKIP_REASONS = {
  xfam_unpinned: 'the policy names no processor features',
  mr_config_id_absent: 'the machine was started without MRCONFIGID',
  app_unpinned: 'the policy pins no app id',
  key_provider_unpinned: 'the policy pins no key provider',
  compose_hash_unpinned: 'the policy pins no manifest',
  manifest_absent: 'the manifest text is not at hand',
  rpc_operators_unpinned: 'the policy names no RPC operators',
  os_image_unpinned: 'the policy names no operating system',
  tls_key_hidden: 'this platform does not show a connection its TLS key',
  chain_unnamed: 'the policy names no chain',
  kms_without_contract: 'the policy names no KMS contract',
  keys_without_kms: 'the app keys come from no KMS',
  kms_owner_unpinned: "the policy pins no owner of the app's contract",
  exit_delay_unpinned: 'the policy names no minimum of exit_delay_s',
  admin_unpinned: 'the policy pins no administrator',
  machines_unpinned: 'the policy lists no machines',
  location_unnamed: 'the policy names no authority for locations',
} as const
export type SkipReason = keyof typeof SKIP_REASONS

/** The reasons that a policy could permit for a check when it listed names of checks. */
const REASONS_OF_CHECK: Record<string, readonly SkipReason[]> = {
  mr_config_id: ['mr_config_id_absent'],
  compose_hash: ['compose_hash_unpinned'],
  manifest: ['manifest_absent'],
  os_image: ['os_image_unpinned'],
  tls_key: ['tls_key_hidden'],
  settlement_signer: ['chain_unnamed'],
  vault_state: ['chain_unnamed'],
  program: ['chain_unnamed'],
  kms: ['kms_without_contract', 'keys_without_kms'],
}

/** @throws Refused for another code; for the name of a check the message says how to rewrite it */
export function readSkipReasons(texts: readonly string[]): SkipReason[] {
  return texts.map((text) => {
    if (Object.hasOwn(SKIP_REASONS, text)) return text as SkipReason
    if (!Object.hasOwn(REASONS_OF_CHECK, text))
      throw new Refused(`the policy's permitted_skips do not know ${text}`)
    const codes = REASONS_OF_CHECK[text]!.join(' or ')
    throw new Refused(
      `the policy's permitted_skips list reasons, not checks: instead of ${text} write ${codes}`,
    )
  })
}
