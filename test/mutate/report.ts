/** Prints the table of a campaign and the faults that survived. */
import type { Campaign, Result } from './campaign'
import { EXPLAINED } from './explained'
import type { Site } from './sites'

export const nameOf = ({ file, old, new: by }: Site): string => `${file}: ${old} => ${by}`

const short = (text: string): string => (text.length > 160 ? `${text.slice(0, 157)}...` : text)

export function describe(site: Site, { verdict, by, seconds }: Result): string {
  return `${verdict.padEnd(10)} ${site.file}:${site.line} ${site.operator}, ${seconds} s ${short(by)}`
}

export type Table = { readonly lines: readonly string[]; readonly survived: readonly Site[] }

export function tableOf({ name, sites, results }: Campaign, explained = EXPLAINED): Table {
  const having = (verdict: Result['verdict']) =>
    [...results.values()].filter((result) => result.verdict === verdict).map(({ at }) => sites[at]!)
  const left = having('survived')
  const survived = left.filter((site) => explained[nameOf(site)] === undefined)
  const counted = {
    planted: results.size,
    noticed: having('noticed').length,
    'time limit': having('time limit').length,
    compiler: having('compiler').length,
    gone: having('gone').length,
    explained: left.length - survived.length,
    survived: survived.length,
  }
  const by_tests = counted.noticed + counted['time limit']
  const share = by_tests + survived.length === 0 ? 1 : by_tests / (by_tests + survived.length)
  const row = Object.entries(counted).map(([column, count]) => `${column} ${count}`)
  return {
    lines: [
      `${name}: ${row.join(', ')}; noticed of those that could be ${(100 * share).toFixed(1)} %`,
      ...survived.flatMap((site) => [
        `survived ${site.file}:${site.line} ${site.operator}`,
        `  old ${site.old}`,
        `  new ${site.new}`,
      ]),
    ],
    survived,
  }
}
