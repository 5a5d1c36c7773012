/** What `initialize` must be and do. */
import { isZero } from '../../../../protocol/bytes'
import { EMPTY_SUBTREES } from '../../../../protocol/notes/merkle_tree'
import { EMPTY_SPENT_SUBTREES } from '../../../../protocol/notes/spent_log'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import {
  CONFIG_SEEDS,
  QUEUE_SEEDS,
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
  VERSION,
} from './call'
import { CONFIG, setVenue } from './config_account'
import { Fields, setU32, setU64, wordAt } from './fields'
import { QUEUE } from './queue'

const EXIT_DELAY_MAX_S = 31_536_000n

export function judgeInitialize(call: Call): void {
  const [deployer, config, tree, ring, queue, program, program_data, system] = accountsOf(call, 8)
  const fields = new Fields(call.data)
  const [admin, exit_delay_s] = [fields.word(), fields.u64()]
  const genesis_hash = fields.word()
  fields.end()
  must(exit_delay_s >= 1n && exit_delay_s <= EXIT_DELAY_MAX_S, 'an exit delay out of range')
  must(!isZero(admin) && !isZero(genesis_hash), 'a zero key')
  mustBeSystem(system)
  mustBeProgram(call, program)
  must(same(program.state.owner, UPGRADEABLE_LOADER), 'another loader')
  must(same(program_data.address, wordAt(program.state.data, 4)), 'the data of another program')
  const authority = program_data.state.data[12] === 1 ? wordAt(program_data.state.data, 13) : undefined
  must(authority !== undefined && same(deployer.address, authority), 'not the upgrade authority')
  const make = (account: Placed, seeds: readonly Uint8Array[], kind: number, size: number): Uint8Array => {
    const made = { seeds, size, owner: call.vault.program, bond: 0n }
    const { data, bump } = createAccount(call, deployer, account, made)
    data.set([kind, VERSION, bump])
    return data
  }
  const fresh = make(config, CONFIG_SEEDS, 1, ACCOUNT_BYTES.config)
  const trees = make(tree, TREE_SEEDS, 2, ACCOUNT_BYTES.tree)
  trees.set(EMPTY_SUBTREES[40]!, 16)
  trees.set(EMPTY_SPENT_SUBTREES[40]!, 1_328)
  make(ring, RING_SEEDS, 3, ACCOUNT_BYTES.ring)
  const entries = make(queue, QUEUE_SEEDS, 7, ACCOUNT_BYTES.queue)
  setU64(entries, QUEUE.next_number, 1n)
  setU32(entries, QUEUE.capacity, 60)
  fresh.set(genesis_hash, CONFIG.genesis_hash)
  fresh.set(tree.address, CONFIG.tree)
  fresh.set(ring.address, CONFIG.ring)
  fresh.set(queue.address, CONFIG.queue)
  setVenue(fresh, call.vault)
  setU64(fresh, CONFIG.exit_delay_s, exit_delay_s)
  fresh.set(admin, CONFIG.admin)
}
