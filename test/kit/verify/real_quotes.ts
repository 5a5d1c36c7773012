/** Reads real TDX quotes, which are not part of the project; a test that needs them is skipped without them. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Collateral } from '../../../protocol/tdx/collateral'

const FOLDER = join(import.meta.dir, '../../../../shared/quotes')
export const HAVE_QUOTES = existsSync(FOLDER)
if (!HAVE_QUOTES) console.log('skipped: the real quotes in ../shared/quotes are absent')

type GetQuoteAnswer = { quote: string; event_log: string; report_data: string; vm_config: string }
const readText = (path: string): string => readFileSync(join(FOLDER, path), 'utf8')
export const readAnswer = (folder: string): GetQuoteAnswer => JSON.parse(readText(`${folder}/getquote.json`))
const readCollateral = (folder: string): Collateral => JSON.parse(readText(`${folder}/collateral.json`))
export const pathOf = (path: string): string => join(FOLDER, path)

/** The two whose collateral is public, with a time at which it was current. */
export const realQuotes = (): {
  name: string
  quote: Uint8Array
  collateral: Collateral
  now_ms: number
}[] => [
  {
    name: 'TD 1.0 sample',
    quote: new Uint8Array(readFileSync(join(FOLDER, 'dcap-qvl-b0c06f/quote.bin'))),
    collateral: readCollateral('dcap-qvl-b0c06f'),
    now_ms: Date.parse('2025-06-19T12:16:03Z'),
  },
  {
    name: 'dstack 0.5',
    quote: new Uint8Array(Buffer.from(readAnswer('dstack-0.5-90c06f').quote, 'hex')),
    collateral: readCollateral('dstack-0.5-90c06f'),
    now_ms: Date.parse('2026-02-18T12:58:51Z'),
  },
]
