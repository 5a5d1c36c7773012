/** The verbs of `tacit` as one table, of which help, parser and completion are made. */

import { ARCHIVE, AUDIT_BATCH, AUDIT_CHAIN, FILE_JUDGES } from './audit'
import { optionsOf, type Verb } from './call'
import { namesIn, UsageFault } from './command'
import { INIT } from './config'
import { CLAIM_VERBS, EXIT_VERBS } from './exit_commands'
import { CODES } from './failures'
import { RECEIPT_VERBS, STATISTICS } from './receipt'
import { TRADE_VERBS } from './trade'
import { ACCOUNT_VERBS, DOCTOR, VENUE_VERBS } from './verify'
import { FILE_VERBS, RECOVER_VERBS, WALLET_VERBS } from './wallet_commands'

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

const FIRST_STEPS = `first steps, with the venue of 'start' on this machine:
       tacit wallet create --seed-file seed.hex --wallet wallet.json, and another such seed as payer.hex
       tacit init --wallet wallet.json --payer payer.hex
       tacit faucet USDC 500, then tacit deposit USDC 300
all verbs:`

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
    ...(names.length === Object.keys(VERBS).length ? [FIRST_STEPS] : []),
    ...lines,
    "'tacit help VERB' has the options and an example of each.",
    WHERE,
    CODES,
  ].join('\n')
}

/** A verb of one word or two, and its arguments. */
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

/** Words that may follow: second words of a verb, or options. */
function wordsAfter(verbs: Readonly<Record<string, Verb>>): [string, string[]][] {
  const names = Object.keys(verbs)
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const [first = '', second] = name.split(' ')
    if (second !== undefined) groups.set(first, [...(groups.get(first) ?? []), second])
  }
  const options = names.map((name): [string, string[]] => {
    const { texts, flags } = namesIn(`${verbs[name]!.form} ${optionsOf(verbs[name]!)}`)
    return [name, [...texts, ...flags].map((one) => `--${one}`)]
  })
  return [...groups, ...options]
}

/** @throws UsageFault for another shell */
function completionFor(shell: string, verbs: Readonly<Record<string, Verb>>): string {
  const first = [...new Set([...Object.keys(verbs).map((name) => name.split(' ')[0]!), 'help'])].join(' ')
  const after = wordsAfter(verbs)
  if (shell === 'fish') {
    const lines = after.map(([name, words]) => {
      const seen = name.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
      return `complete -c tacit -f -n '${seen.join('; and ')}' -a '${words.join(' ')}'`
    })
    return [`complete -c tacit -f -n __fish_use_subcommand -a '${first}'`, ...lines].join('\n')
  }
  if (shell !== 'bash' && shell !== 'zsh') throw new UsageFault()
  const cases = after.map(([name, words]) => {
    const pattern = name.includes(' ') ? `*:'${name}'` : `*:'${name} '*`
    return `    ${words[0]?.startsWith('--') ? pattern : `2:'${name} '*`}) words='${words.join(' ')}' ;;`
  })
  const lines = [
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_tacit() {',
    `  local words at="\${COMP_WORDS[COMP_CWORD]}"`,
    `  case "$COMP_CWORD:\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in`,
    `    1:*) words='${first}' ;;`,
    ...cases,
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "$at"))',
    '}',
    'complete -o default -F _tacit tacit',
  ]
  return lines.join('\n')
}
