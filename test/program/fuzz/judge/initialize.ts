/** What `initialize` must be and do. */
import { isZero } from '../../../../protocol/bytes'
import { EMPTY_SUBTREES } from '../../../../protocol/notes/merkle_tree'
import { EMPTY_SPENT_ROOT } from '../../../../protocol/notes/spent_tree'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import {
  CONFIG_SEEDS,
  RING_SEEDS,
  TREE_SEEDS,
  UPGRADEABLE_LOADER,
} from '../../../../protocol/vault/addresses'
import {
  accountsOf,
  type Call,
  createAccount,
  must,
  mustBeProgram,
  mustBeSystem,
  type Placed,
  same,
} from './call'
import { CONFIG } from './config_account'
import { Fields, setU64, wordAt } from './fields'

const PADDING = 2_743
const EXIT_DELAY_MAX_S = 31_536_000n

export function judgeInitialize(call: Call): void {
  const [deployer, config, tree, ring, program, program_data, system] = accountsOf(call, 7) as [
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
  ]
  must(!call.inner, 'a vault opened from inside another program')
  const fields = new Fields(call.data)
  const [admin, signer, exit_delay_s] = [fields.word(), fields.word(), fields.u64()]
  fields.bytes(PADDING)
  fields.end()
  must(exit_delay_s >= 1n && exit_delay_s <= EXIT_DELAY_MAX_S, 'an exit delay out of range')
  must(!isZero(admin) && !isZero(signer), 'a zero key')
  mustBeSystem(system)
  mustBeProgram(call, program)
  must(same(program.state.owner, UPGRADEABLE_LOADER), 'another loader')
  must(same(program_data.address, wordAt(program.state.data, 4)), 'the data of another program')
  const authority = program_data.state.data[12] === 1 ? wordAt(program_data.state.data, 13) : undefined
  must(authority !== undefined && same(deployer.address, authority), 'not the upgrade authority')
  const make = (account: Placed, seeds: readonly Uint8Array[], kind: number, size: number): Uint8Array => {
    const made = { seeds, size, owner: call.vault.program, bond: 0n }
    const { data, bump } = createAccount(call, deployer, account, made)
    data.set([kind, 1, bump])
    return data
  }
  const fresh = make(config, CONFIG_SEEDS, 1, ACCOUNT_BYTES.config)
  make(tree, TREE_SEEDS, 2, ACCOUNT_BYTES.tree).set(EMPTY_SUBTREES[32]!, 16)
  make(ring, RING_SEEDS, 3, ACCOUNT_BYTES.ring)
  setU64(fresh, CONFIG.exit_delay_s, exit_delay_s)
  fresh.set(admin, CONFIG.admin)
  fresh.set(signer, CONFIG.settlement_signer)
  fresh.set(EMPTY_SPENT_ROOT, CONFIG.spent_root)
}
