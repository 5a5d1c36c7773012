/** Judges a whole transaction that landed, and rules and effects of `initialize`, `register_mint` and `deposit`. */
import { isZero, toHex } from '../../../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES, EMPTY_SUBTREES } from '../../../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../../../protocol/notes/notes'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import {
  CONFIG_SEEDS,
  mintRecordSeeds,
  QUEUE_SEEDS,
  RING_SEEDS,
  SYSTEM_PROGRAM,
  TREE_SEEDS,
  UPGRADEABLE_LOADER,
  type VaultAddresses,
  vaultAddresses,
  vaultTokenSeeds,
} from '../../../../protocol/vault/addresses'
import { SECP256R1_PRECOMPILE } from '../../../../protocol/vault/epochs'
import {
  type InstructionName,
  instructionName,
  type VaultInstruction,
} from '../../../../protocol/vault/instruction'
import { innerOf } from '../../forwarder'
import { namedAccounts } from '../raw_chain'
import {
  CONFIG,
  configOf,
  isFrozen,
  judgeAnnounce,
  judgeAuthorizeRestore,
  judgeDeclareOutage,
  judgePause,
  judgeSetAdmin,
  mustBeAdmin,
  mustRun,
  setVenue,
  writableConfig,
} from './admin'
import {
  accountsOf,
  type Call,
  type Clock,
  createAccount,
  type Draft,
  Fields,
  Illegal,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  type Placed,
  type Report,
  same,
  setU16,
  setU32,
  setU64,
  u16At,
  u64At,
  VERSION,
  wordAt,
} from './call'
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
import { appendLeaves, keepState, leafCount, ringOf, treeOf } from './note_states'
import { judgeGrowQueue, judgePay, judgeSettle, QUEUE } from './queue'
import {
  addTo,
  isTokenProgram,
  MINT_RECORD,
  mintRecordOf,
  moveTokens,
  mustBeMint,
  mustBeSolvent,
  mustBeVaultToken,
  mustHold,
} from './tokens'

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
  // Changes nothing; the instruction behind it asks for the verified values.
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

/** Leaves in the draft the effects that the transaction must have. */
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

const EXIT_DELAY_MAX_S = 31_536_000n

function judgeInitialize(call: Call): void {
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

function judgeRegisterMint(call: Call): void {
  const [admin, payer, config_account, record, mint, vault, token_program, system] = accountsOf(call, 8)
  const fields = new Fields(call.data)
  const [min_deposit, min_exit] = [fields.u64(), fields.u64()]
  fields.end()
  const config = writableConfig(call, config_account)
  mustBeAdmin(config, admin)
  must(!isFrozen(config), 'a mint for a frozen vault')
  must(min_deposit > 0n && min_exit > 0n, 'a minimum of nothing')
  mustBeSystem(system)
  must(isTokenProgram(token_program.address), 'no token program')
  mustBeMint(mint.state, token_program.address)
  const index = u16At(config, CONFIG.mint_count)
  must(index < 65_535, 'too many mints')
  const own = { size: ACCOUNT_BYTES.mint_record, owner: call.vault.program, bond: 0n }
  const made = createAccount(call, payer, record, { ...own, seeds: mintRecordSeeds(mint.address) })
  const tokens = { seeds: vaultTokenSeeds(mint.address), size: 165, owner: token_program.address, bond: 0n }
  const { data: token, bump: vault_bump } = createAccount(call, payer, vault, tokens)
  token.set(mint.address, 0)
  token.set(config_account.address, 32)
  token[108] = 1
  const { data } = made
  data.set([4, VERSION, made.bump, vault_bump, mint.state.data[44]!, mint.state.data[46] === 0 ? 0 : 1])
  setU16(data, 6, index)
  data.set(mint.address, MINT_RECORD.mint)
  data.set(token_program.address, MINT_RECORD.token_program)
  data.set(vault.address, MINT_RECORD.vault_token)
  setU64(data, MINT_RECORD.min_deposit, min_deposit)
  setU64(data, MINT_RECORD.min_exit, min_exit)
  setU16(config, CONFIG.mint_count, index + 1)
  call.report.mints.push(mint.address)
}

function judgeDeposit(call: Call): void {
  const [
    depositor,
    source,
    config,
    tree_account,
    ring_account,
    record_account,
    mint,
    vault,
    token_program,
    us,
  ] = accountsOf(call, 10)
  const fields = new Fields(call.data)
  const [amount, inner] = [fields.u64(), fields.word()]
  fields.end()
  mustBeProgram(call, us)
  const state = configOf(call, config)
  mustRun(state)
  must(u64At(state, CONFIG.epoch) > 0n, 'a deposit before the first epoch')
  mustSign(depositor)
  for (const account of [tree_account, ring_account, record_account]) mustBeWritable(account)
  const [tree, ring] = [treeOf(call, tree_account), ringOf(call, ring_account)]
  const record = mintRecordOf(call, record_account, mint.address)
  mustBeVaultToken(vault, record, token_program)
  must(!same(source.address, vault.address), 'a deposit from the vault itself')
  must(amount >= u64At(record, MINT_RECORD.min_deposit), 'a deposit below the minimum')
  mustBeElement(inner)
  moveTokens(source, vault, mint.address, amount)
  mustHold(depositor, source.state, amount)
  addTo(record, MINT_RECORD.liabilities, amount)
  mustBeSolvent(record, vault)
  const made_of = { mint: mint.address, amount, inner }
  const commitment = depositCommitment({ ...made_of, leaf_index: Number(leafCount(tree)) })
  keepState(ring, tree, call.clock.slot)
  appendLeaves(tree, [commitment])
  call.report.appended.push({ commitment, made_of })
}
