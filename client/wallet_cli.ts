#!/usr/bin/env bun
/** `bun run wallet`: a wallet without a venue, from seed and public chain: create, recover, deposit, leave. */
import { NotAVault } from './chain/read_vault'
import { TransactionFailed } from './chain/transaction_failed'
import { createWallet } from './commands/create_wallet'
import { depositTokens } from './commands/deposit_tokens'
import { exitEscape, exitFreeze, exitRequest, exitStatus } from './commands/exit_commands'
import { listNotes } from './commands/list_notes'
import { CommandOptions, CommandRefused } from './commands/options'
import { recoverNotes } from './commands/recover_notes'
import { showAddress } from './commands/show_address'
import { ProofUnavailable } from './exit/vault_proofs'
import { HistoryIncomplete } from './wallet/vault_history'

const USAGE = `usage: bun run wallet COMMAND
  create  --seed-file FILE [--wallet FILE]                     a new seed, and an empty wallet
  address --seed-file FILE | --wallet FILE [--key K] [--payer FILE]
  recover CHAIN --seed-file FILE --wallet FILE [--replace] [--all]
          [--gap-keys 20] [--gap-deposits 1000] [--gap-commands 10000]
                                                               every note of a seed, into a wallet file
  notes   --wallet FILE [--all]                                spent ones too with --all
  deposit CHAIN --wallet FILE --payer FILE --mint MINT --amount UNITS [--key K]
  exit request CHAIN --wallet FILE --payer FILE --note COMMITMENT [--destination ACCOUNT]
  exit status  CHAIN --wallet FILE
  exit freeze  CHAIN --payer FILE (--note COMMITMENT --wallet FILE | --nullifier NULLIFIER)
  exit escape  CHAIN --wallet FILE --payer FILE [--note COMMITMENT] [--destination ACCOUNT]
CHAIN is --rpc URL --program ADDRESS. A payer is a file with a 32-byte seed in hex or a Solana key file; it pays fees, rent
and bond, and without --destination its own token account receives the tokens.
exit code: 0 done, 1 refused by the chain or not provable, 64 usage`

const COMMANDS: Record<string, (options: CommandOptions) => void | Promise<void>> = {
  create: createWallet,
  address: showAddress,
  recover: recoverNotes,
  notes: listNotes,
  deposit: depositTokens,
  'exit request': exitRequest,
  'exit status': exitStatus,
  'exit freeze': exitFreeze,
  'exit escape': exitEscape,
}
const REFUSALS = [TransactionFailed, ProofUnavailable, HistoryIncomplete, NotAVault]

try {
  const options = CommandOptions.parse(process.argv.slice(2))
  const command = COMMANDS[options.words.join(' ')]
  if (command === undefined) throw new CommandRefused(USAGE)
  await command(options)
} catch (error) {
  if (error instanceof CommandRefused) {
    console.error(error.message)
    process.exit(64)
  }
  if (!REFUSALS.some((refusal) => error instanceof refusal)) throw error
  console.error((error as Error).message)
  process.exit(1)
}
