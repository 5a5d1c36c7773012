/** The verbs of `tacit` as one table, of which help, parser and completion are made. */
import { ACCOUNT_VERBS } from './account'
import { ARCHIVE } from './archive'
import { AUDIT_BATCH } from './audit_batch'
import { AUDIT_CHAIN } from './audit_chain'
import { optionsOf, type Verb } from './call'
import { CLAIM_VERBS } from './claim_commands'
import { completionFor } from './completion'
import { INIT } from './config'
import { DOCTOR } from './doctor'
import { EXIT_VERBS } from './exit_commands'
import { CODES } from './failures'
import { FILE_JUDGES } from './judge_files'
import { RECEIPT_VERBS } from './receipt'
import { RECOVER_VERBS } from './recover_notes'
import { STATISTICS } from './statistics'
import { TRADE_VERBS } from './trade'
import { VENUE_VERBS } from './verify'
import { WALLET_VERBS } from './wallet_commands'
import { FILE_VERBS } from './wallet_files'

export const VERBS: Readonly<Record<string, Verb>> = {
  ...VENUE_VERBS,
  init: INIT,
  doctor: DOCTOR,
  ...FILE_VERBS,
  ...RECOVER_VERBS,
  ...WALLET_VERBS,
  ...TRADE_VERBS,
  ...EXIT_VERBS,
  ...CLAIM_VERBS,
  ...ACCOUNT_VERBS,
  ...RECEIPT_VERBS,
  statistics: STATISTICS,
  archive: ARCHIVE,
  'audit-chain': AUDIT_CHAIN,
  'audit-batch': AUDIT_BATCH,
  ...FILE_JUDGES,
  completion: {
    form: 'bash|zsh|fish',
    says: 'prints the completion of a shell, to be read by it at its start',
    example: 'tacit completion bash',
    run: (call) => console.log(completionFor(call.words[0]!, VERBS)),
  },
}

const WHERE = `Settings are options, or variables (TACITCLI_WALLET for --wallet), or entries of tacit.json ('tacit init'), or those of the venue
that 'start' runs on this machine, in ./data. --json prints one JSON value.`

export function helpOf(name: string, verb: Verb): string {
  const { form, says, example } = verb
  const lines = [`usage: tacit ${name} ${form}`.trimEnd(), `  settings: ${optionsOf(verb)}`, `  ${says}`]
  return [...lines, `  for example: ${example}`, WHERE, CODES].join('\n')
}

export function listOf(names: readonly string[]): string {
  const lines = names.map((name) => {
    const { form, says } = VERBS[name]!
    return `       ${`tacit ${name} ${form}`.trimEnd()}\n         ${says.replaceAll('\n ', '').split(/[.:;] /)[0]}`
  })
  return [
    'usage: tacit VERB ...',
    ...lines,
    "'tacit help VERB' has the options and an example of each.",
    WHERE,
    CODES,
  ].join('\n')
}

/** A verb of one word or two, and what follows it. */
export function verbIn(words: readonly string[]): {
  name: string
  verb: Verb | undefined
  args: readonly string[]
} {
  for (const count of [2, 1]) {
    const name = words.slice(0, count).join(' ')
    if (Object.hasOwn(VERBS, name)) return { name, verb: VERBS[name], args: words.slice(count) }
  }
  return { name: words[0] ?? '', verb: undefined, args: words }
}
