#!/usr/bin/env bun
/** Runs `bun run wallet`: creates, recovers, funds and exits a wallet without a venue. */
import { Refused } from '../verify/transcript'
import { hashFast } from '../wallet/hash_fast'
import { NotSeedWords } from '../wallet/seed_words'
import { NotAWallet, WalletChanged, WalletLocked } from '../wallet/wallet_file'
import { judgeChain } from './chain_failures'
import { exitChallenge, exitClaim, exitRedirect } from './claim_commands'
import { type Failure, runCommand } from './command'
import { exitClose, exitFreeze, exitPay, exitRefuse, exitRequest, exitStatus } from './exit_commands'
import { CommandOptions } from './options'
import { recoverNotes, syncNotes } from './recover_notes'
import { askFaucet, depositTokens, listNotes, showAddress } from './wallet_commands'
import { backupWallet, createWallet, encryptWallet, restoreWallet, showWords } from './wallet_files'

const USAGE = `usage: bun run wallet COMMAND
  create  --seed-file FILE [--wallet FILE [LOCK]] [--words-file FILE]
                                                               a new seed, or that of 24 words, and an empty wallet
  words   --seed-file FILE                                     the seed as 24 words
  encrypt --wallet FILE --password-file FILE                   the wallet under a password
  backup  --wallet FILE --out FILE --password-file FILE        an encrypted copy
  restore --backup FILE --wallet FILE [LOCK]                   a wallet from such a copy
  address --seed-file FILE | --wallet FILE [--key K]           a trading key
  address --payer FILE                                         the Solana address that pays
  recover CHAIN --seed-file FILE --wallet FILE [--replace] [--all] [GAPS]
                                                               every note of a seed, into a wallet file
  sync    CHAIN --wallet FILE [--all] [GAPS]                   what came since: new notes, and which are spent
  notes   --wallet FILE [--all]                                what the file holds; spent ones too with --all
  deposit CHAIN --wallet FILE --payer FILE --mint MINT --amount UNITS [--key K]
  faucet  --rpc URL --payer FILE --mint MINT --amount UNITS    test money, on an embedded chain alone
  exit request CHAIN --wallet FILE --payer FILE --note COMMITMENT [--destination ACCOUNT]
  exit status  CHAIN --wallet FILE
  exit pay     CHAIN --payer FILE (--note COMMITMENT --wallet FILE | --number PAYOUT) [--refund]
  exit close   CHAIN --payer FILE (--note COMMITMENT --wallet FILE | --nullifier NULLIFIER)
  exit freeze  CHAIN --payer FILE (--note COMMITMENT --wallet FILE | --nullifier NULLIFIER)
  exit refuse  CHAIN --wallet FILE --payer FILE --nullifier NULLIFIER
of a frozen vault:
  exit claim   CHAIN --wallet FILE --payer FILE [--note COMMITMENT] [--destination ACCOUNT] [--accept-less] [GAPS]
                                                               claims unspent notes; run again, it collects what is due
  exit redirect CHAIN --wallet FILE --payer FILE --note COMMITMENT --destination ACCOUNT
  exit challenge CHAIN --wallet FILE --payer FILE --nullifier NULLIFIER
LOCK is --password-file FILE, the first line of a file that only you can read; every command that reads an encrypted
wallet takes it. CHAIN is --rpc URL[,URL] --program ADDRESS [--archive FOLDER|URL]: further nodes are compared with the
first; an archive ('tacit archive') replaces the reading of everything before its end. A payer is a file with a 32-byte seed in hex or a Solana key file; it pays fees, rent
and bond, and without --destination its own token account receives the tokens. GAPS say how many unused places in a row end
a search: --gap-keys 20 --gap-deposits 1000 --gap-commands 1000000. A search that ends before every spent note has its
command fails; --partial keeps what it found.
exit code: 0 done, 1 refused by the chain or not provable, 2 no answer from the node, 64 usage, 74 a file or folder fails,
130 stopped by Ctrl-C`

const COMMANDS: Record<string, (options: CommandOptions) => void | Promise<void>> = {
  create: createWallet,
  words: showWords,
  encrypt: encryptWallet,
  backup: backupWallet,
  restore: restoreWallet,
  address: showAddress,
  recover: recoverNotes,
  sync: syncNotes,
  notes: listNotes,
  deposit: depositTokens,
  faucet: askFaucet,
  'exit request': exitRequest,
  'exit status': exitStatus,
  'exit pay': exitPay,
  'exit close': exitClose,
  'exit freeze': exitFreeze,
  'exit refuse': exitRefuse,
  'exit claim': exitClaim,
  'exit redirect': exitRedirect,
  'exit challenge': exitChallenge,
}
const MISUSES = [Refused, NotAWallet, WalletLocked, WalletChanged, NotSeedWords]
const SENT = "what was sent already may still land: 'sync' or 'exit status' tells"

/** The command's options once they are parsed: a failure names the node, and what may have been sent. */
let options: CommandOptions | undefined

async function run(args: string[]): Promise<void> {
  options = CommandOptions.parse(args)
  const command = COMMANDS[options.words.join(' ')]
  if (command === undefined) throw new Refused(USAGE)
  await hashFast()
  await command(options)
}

function judge(error: Error): Failure | undefined {
  const failure = judgeChain(error, options?.optional('rpc') ?? 'the node')
  if (failure?.code === 2 && options?.optional('payer') !== undefined) failure.message += `\n${SENT}`
  const misused = MISUSES.some((kind) => error instanceof kind)
  return misused ? { code: 64, message: error.message } : failure
}

process.once('SIGINT', () => {
  console.error(`stopped; ${SENT}`)
  process.exit(130)
})
await runCommand(USAGE, run, judge)
