/**
 * The Intel SGX Root CA key: the only root under which a quote comes from real hardware. Published by Intel in
 * "Intel SGX PCK Certificate and CRL Profile Specification"; valid since 2018-05-21.
 */
import { fromHex } from './bytes'

/** Raw P-256 point x ‖ y, 64 bytes. */
export const INTEL_ROOT_KEY: Uint8Array = fromHex(
  '0ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5' +
    '67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394',
  64,
)!
