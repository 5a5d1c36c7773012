/** The policy file that accepts this laptop and nothing else: whoever uses it has named a development root on purpose. */
import { readFileSync } from 'node:fs'

export type LaptopBuild = { compose_hash: string; root_pem: string; rpc_url: string; program_id: string }

/**
 * In the form `tacit verify --policy` reads.
 * @param root_pem path of the root's certificate
 */
export function laptopPolicy({ compose_hash, root_pem, rpc_url, program_id }: LaptopBuild): string {
  const policy = {
    compose_hashes: [compose_hash],
    tcb_statuses: ['UpToDate'],
    // The manifest of a laptop runs no image, which the linter refuses: its text is not put forward as a deployment's.
    permitted_skips: ['os_image', 'manifest', 'kms'],
    roots_pem: readFileSync(root_pem, 'utf8'),
    chain: { rpc_url, program_id, upgrade_authorities: [], pending_actions: [], paused_allowed: false },
  }
  return `${JSON.stringify(policy, null, 2)}\n`
}
