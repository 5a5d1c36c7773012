/** Checks on what a settlement batch did, from the outside. */

import { expect } from 'bun:test'
import type { SettlementPayload } from '../../../engine/ports'
import { fromHex, toHex } from '../../../protocol/bytes'
import { rootFromPath } from '../root_from_path'

import type { TestVenue } from './open_test_venue'

/** Each output of the batch has a path to the root the venue shows. */
export async function outputsStandInTree(open: TestVenue, payload: SettlementPayload): Promise<void> {
  const { root } = open.venue.treeRoot()
  for (const { commitment } of payload.outputs) {
    const proof = await open.venue.treeInclusion(commitment)
    const siblings = proof.siblings.map((one) => fromHex(one, 32)!)
    expect(toHex(rootFromPath(commitment, proof.leaf_index, siblings))).toBe(root)
  }
}
