/** What a batch signed ahead asks for by formula is enough, and not much too much. */
import { expect, test } from 'bun:test'
import { COMPUTE_UNITS_MAX } from '../../engine/chain/client/build_transaction'
import { settleUnits } from '../../engine/chain/relayer/settle_instruction'
import { u64Le } from '../../protocol/bytes'
import { elements, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'

/** Of a transaction by its version: two instructions that set its limits come first in a v0 transaction. */
const V0_LIMITS_UNITS = 300

/**
 * Each multiple of 2^h that an append crosses costs h hashes more, so these are cheap and dear places. Beyond 2^14 a
 * small batch may ask for too little, once in 16,384 leaves: it is signed again.
 */
const LEAF_COUNTS = [0, 1, 2, 15, 1_000, 2 ** 10 - 1, 2 ** 14 - 1]

/** Moves the tree; what its frontier holds changes no cost. */
function setLeafCount({ chain }: OpenVault, leaf_count: number): void {
  const { data } = chain.account(chain.vault.tree)!
  data.set(u64Le(leaf_count), 8)
  chain.setAccount(chain.vault.tree, data, chain.program)
}

const SHAPES = [
  [1, 0],
  [1, 1],
  [1, 2],
  [1, 4],
  [4, 1],
  [6, 12],
  [14, 28],
  [28, 28],
  [28, 56],
  [14, 56],
  [50, 50],
] as const

test.each(SHAPES)('%d notes spent and %d made', (spent, made) => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  const asked = settleUnits({ nullifiers: new Array(spent), outputs: new Array(made), payouts: [] })
  const used = LEAF_COUNTS.map((leaf_count, at) => {
    setLeafCount(vault, leaf_count)
    vault.chain.setTime(1_100 + 20 * at, 1_800_000_000)
    const nullifiers = elements(`n ${at}`, spent)
    const outputs = outputsOf(elements(`c ${at}`, made))
    return Number(landed(vault.send(vault.batchOf({ nullifiers, outputs }))).units)
  })
  const most = Math.max(...used) + V0_LIMITS_UNITS
  expect(asked).toBeGreaterThan(most)
  if (made > 0) expect(asked).toBeLessThan(1.4 * Math.min(...used))
})

test('a batch with payouts asks for the most that there is', () => {
  expect(settleUnits({ nullifiers: [], outputs: [], payouts: [1] })).toBe(COMPUTE_UNITS_MAX)
})
