/** Runs the vault's one-instruction commands: chooses the signers and prints the effect before sending. */
import { type Options, UsageFault } from '../../client/cli/command'
import { readDeployment } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import { programDataAddress, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import {
  authorizeRestoreInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  rotateSignerInstruction,
  unpauseInstruction,
} from '../../protocol/vault/admin'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { administerVault } from './deploy_program'

export const TEXTS = [
  ...(['rpc', 'payer', 'authority', 'admin', 'program', 'elf', 'signer', 'exit-delay', 'mint'] as const),
  ...(['token-program', 'min-deposit', 'min-exit', 'key', 'priority-fee'] as const),
] as const
export const FLAGS = ['renounce', 'execute'] as const
export type ProgramOptions = Options<(typeof TEXTS)[number], (typeof FLAGS)[number]>

export const rpcUrls = (options: ProgramOptions): string[] =>
  options.text('rpc', process.env['SOLANA_RPC_URL']).split(',')

type Action = { seeds: [Uint8Array, ...Uint8Array[]]; instruction: VaultInstruction; means: string }

/** Prints instruction and signers; sends only with `--execute`. */
export async function administer(command: string, options: ProgramOptions): Promise<void> {
  const { seeds, instruction, means } = await actionOf(command, options)
  const signers = seeds.map((seed) => encodeBase58(publicKeyOf(seed)))
  const program = encodeBase58(instruction.program)
  console.log(
    JSON.stringify({ command, program, signers, data_bytes: instruction.data.length, means }, null, 2),
  )
  if (!options.flag('execute')) return console.log('dry run: nothing was sent; add --execute')
  const fee = options.amount('priority-fee', '0')
  console.log(`landed: ${await administerVault(rpcUrls(options), seeds, instruction, fee)}`)
  const { config } = await readDeployment(rpcUrls(options), instruction.program)
  const { epoch, generation, paused, frozen, exit_delay_s, pending } = config
  console.log(JSON.stringify({ epoch, generation, paused, frozen, exit_delay_s, pending }, null, 2))
}

async function actionOf(command: string, options: ProgramOptions): Promise<Action> {
  const program = options.address('program')
  if (command === 'initialize') return initialize(program, options)
  const seed = options.seed('admin')
  const admin = publicKeyOf(seed)
  const by = (instruction: VaultInstruction, means: string): Action => ({ seeds: [seed], instruction, means })
  switch (command) {
    case 'register-mint': {
      const token_program = tokenProgram(options.text('token-program', 'spl'))
      const bounds = { min_deposit: options.amount('min-deposit'), min_exit: options.amount('min-exit') }
      const mint = options.address('mint')
      const fields = { program, admin, payer: admin, mint, token_program, ...bounds }
      return by(registerMintInstruction(fields), 'the vault takes this mint; its bounds are final')
    }
    case 'pause':
      return by(pauseInstruction({ program, admin }), 'deposits and settlement stop at once, exits never')
    case 'unpause':
      return by(unpauseInstruction({ program, admin }), 'deposits and settlement go on')
    case 'announce-restore':
      return by(
        authorizeRestoreInstruction({ program, admin, action: 'announce' }),
        'after a quarter of the exit delay a venue may begin from the chain: everyone sees it',
      )
    case 'cancel-restore':
      return by(authorizeRestoreInstruction({ program, admin, action: 'cancel' }), 'the announcement is void')
    case 'announce-signer':
      return by(
        rotateSignerInstruction({ program, admin, action: 'announce', key: options.address('key') }),
        'after twice the exit delay another key may settle',
      )
    case 'apply-signer':
      return by(rotateSignerInstruction({ program, admin, action: 'apply' }), 'the announced key settles')
    case 'cancel-signer':
      return by(rotateSignerInstruction({ program, admin, action: 'cancel' }), 'the announcement is void')
    default:
      throw new UsageFault(`no such command: ${command}`)
  }
}

async function initialize(program: Uint8Array, options: ProgramOptions): Promise<Action> {
  const authority = options.seed('authority')
  const instruction = initializeInstruction({
    program,
    program_data: programDataAddress(program),
    deployer: publicKeyOf(authority),
    admin: options.address('admin'),
    settlement_signer: options.address('signer'),
    exit_delay_s: Number(options.amount('exit-delay', '604800')),
  })
  return { seeds: [authority], instruction, means: 'the vault opens with this admin and settlement signer' }
}

function tokenProgram(name: string): Uint8Array {
  if (name === 'spl') return TOKEN_PROGRAM
  if (name === 'token-2022') return TOKEN_2022_PROGRAM
  throw new Error('--token-program is spl or token-2022')
}
