/** RPC methods about slots, blocks and the node. */
import { encodeBase58 } from '../../../../protocol/base58'
import { SLOTS_PER_EPOCH } from '../bank'
import { commitmentOf, configAt, type Method } from '../params'

const slot: Method = (machine, params) => machine.slotAt(commitmentOf(configAt(machine, params, 0)))

const blockHeight: Method = (machine, params) =>
  machine.blockhashes.at(machine.slotAt(commitmentOf(configAt(machine, params, 0)))).height

const epochInfo: Method = (machine, params) => {
  const absoluteSlot = machine.slotAt(commitmentOf(configAt(machine, params, 0)))
  return {
    absoluteSlot,
    blockHeight: machine.blockhashes.at(absoluteSlot).height,
    epoch: Math.floor(absoluteSlot / SLOTS_PER_EPOCH),
    slotIndex: absoluteSlot % SLOTS_PER_EPOCH,
    slotsInEpoch: SLOTS_PER_EPOCH,
    transactionCount: null,
  }
}

/** Null outside the recent window, as for a block a node no longer keeps. */
const blockTime: Method = (machine, params) => machine.blockhashes.exact(Number(params[0]))?.unix_s ?? null

export const slotMethods: Record<string, Method> = {
  getSlot: slot,
  getBlockHeight: blockHeight,
  getEpochInfo: epochInfo,
  getBlockTime: blockTime,
  getHealth: () => 'ok',
  getVersion: () => ({ 'solana-core': '4.2.0', 'feature-set': 0 }),
  getGenesisHash: (machine) => encodeBase58(machine.genesis_hash),
  getFirstAvailableBlock: () => 0,
}
