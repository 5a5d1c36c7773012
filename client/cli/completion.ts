/** Makes the completion of a shell from the table of verbs. */
import { optionsOf, type Verb } from './call'
import { namesIn, UsageFault } from './command'

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
export function completionFor(shell: string, verbs: Readonly<Record<string, Verb>>): string {
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
