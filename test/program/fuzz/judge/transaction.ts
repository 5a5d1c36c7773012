/** Judges a whole transaction that landed: what it must have been, and what every account must hold after it. */
import { toHex } from '../../../../protocol/bytes'
import { SYSTEM_PROGRAM, type VaultAddresses, vaultAddresses } from '../../../../protocol/vault/addresses'
import {
  type InstructionName,
  instructionName,
  type VaultInstruction,
} from '../../../../protocol/vault/instruction'
import { SECP256R1_PRECOMPILE } from '../../../../protocol/vault/platforms'
import { innerOf } from '../../forwarder'
import { namedAccounts } from '../message'
import { judgeAnnounce, judgeAuthorizeRestore, judgeDeclareOutage, judgePause, judgeSetAdmin } from './admin'
import { type Call, type Clock, Illegal, must, mustBeWritable, mustSign, type Report, same } from './call'
import { judgeAnchor, judgeOpenAttestedEpoch, judgeRegisterPlatform } from './epochs'
import {
  judgeChallengeEscape,
  judgeClaimEscape,
  judgeCloseExit,
  judgeFreeze,
  judgePayEscape,
  judgeRedirectEscape,
  judgeRefuseExit,
  judgeRequestExit,
} from './exits'
import { u64At } from './fields'
import { judgeDeposit, judgeInitialize, judgeRegisterMint } from './initialize'
import type { Draft } from './ledger'
import { judgeGrowQueue, judgePay, judgeSettle } from './queue'
import { isTokenProgram, moveTokens, mustHold } from './tokens'

const JUDGES: { readonly [name in InstructionName]?: (call: Call) => void } = {
  initialize: judgeInitialize,
  register_mint: judgeRegisterMint,
  deposit: judgeDeposit,
  settle: judgeSettle,
  anchor: judgeAnchor,
  request_exit: judgeRequestExit,
  refuse_exit: judgeRefuseExit,
  freeze: judgeFreeze,
  set_admin: judgeSetAdmin,
  authorize_restore: judgeAuthorizeRestore,
  pause: (call) => judgePause(call, true),
  unpause: (call) => judgePause(call, false),
  pay: judgePay,
  grow_queue: judgeGrowQueue,
  close_exit: judgeCloseExit,
  claim_escape: judgeClaimEscape,
  challenge_escape: judgeChallengeEscape,
  pay_escape: judgePayEscape,
  redirect_escape: judgeRedirectEscape,
  declare_outage: judgeDeclareOutage,
  announce: judgeAnnounce,
  register_platform: judgeRegisterPlatform,
  open_attested_epoch: judgeOpenAttestedEpoch,
}

/** A transfer of lamports: number u32 = 2, amount u64. */
function judgeSystem(call: Call): void {
  const [from, to] = call.accounts
  must(call.data[0] === 2 && from !== undefined && to !== undefined, 'a system instruction nobody planned')
  mustSign(from)
  mustBeWritable(to)
  const amount = u64At(call.data, 4)
  call.draft.at(from.address).lamports -= amount
  call.draft.at(to.address).lamports += amount
}

/** `transferChecked`: source, mint, destination, owner; number u8 = 12, amount u64, decimals u8. */
function judgeTokens(call: Call): void {
  const [from, mint, to, owner] = call.accounts.map((named) => ({
    ...named,
    state: call.draft.at(named.address),
  }))
  must(call.data[0] === 12, 'a token instruction nobody planned')
  const amount = u64At(call.data, 1)
  mustSign(owner!)
  mustHold(owner!, from!.state, amount)
  moveTokens(from!, to!, mint!.address, amount)
}

function judgeInstruction(call: Call): void {
  const { program } = call.vault
  // Changes nothing; what it verified is asked for by the instruction behind it.
  if (same(program, SECP256R1_PRECOMPILE)) {
    must(!call.inner, 'a precompile called from inside')
    return
  }
  const name = instructionName(call.data)
  const ours = name && JUDGES[name]
  const others = isTokenProgram(program) ? judgeTokens : ours
  const judge = same(program, SYSTEM_PROGRAM) ? judgeSystem : others
  must(judge !== undefined, 'an instruction that does not exist')
  judge(call)
}

type Verdict = { illegal: string } | { reports: Map<string, Report> }

const vaults = new Map<string, VaultAddresses>()

/** Leaves in the draft what the transaction must have done. */
export function judgeTransaction(
  instructions: readonly VaultInstruction[],
  fee_payer: Uint8Array,
  chain: { draft: Draft; clock: Clock; rentOf: (size: number) => bigint },
): Verdict {
  const named = new Map(namedAccounts(instructions, fee_payer).map((one) => [toHex(one.address), one]))
  const reports = new Map<string, Report>()
  try {
    for (const [index, instruction] of instructions.entries()) {
      const inside = innerOf(instruction)
      const { program, accounts, data } = inside ?? instruction
      const key = toHex(program)
      const vault = vaults.get(key) ?? vaultAddresses(program)
      vaults.set(key, vault)
      const report = reports.get(key) ?? { vault: program, appended: [], batches: [], mints: [] }
      reports.set(key, report)
      const flagged = accounts.map(({ address }) => named.get(toHex(address))!)
      judgeInstruction({
        ...chain,
        vault,
        data,
        report,
        accounts: flagged,
        inner: inside !== undefined,
        index,
        before: instructions[index - 1],
      })
    }
  } catch (error) {
    if (error instanceof Illegal) return { illegal: error.message }
    throw error
  }
  return { reports }
}
