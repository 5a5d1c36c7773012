/**
 * Owns the auditor's command: `bun run auction FILE` answers every case of an auction file with the venue's own matching
 * code, one JSON object per line (matching.md "Auditing").
 */
import { answerCase } from './audit_case'
import { readCases } from './audit_file'

const USAGE = `usage: bun run auction FILE
Answers every case of FILE, in the format of test/vectors/auction.json, with one JSON object a line.`

const [file, ...rest] = process.argv.slice(2)
if (file === '--help' || file === '-h') {
  console.log(USAGE)
  process.exit(0)
}
if (file === undefined || rest.length > 0) {
  console.error(USAGE)
  process.exit(64)
}
try {
  for (const auction of readCases(await Bun.file(file).text()))
    console.log(JSON.stringify(answerCase(auction)))
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error))
  process.exit(1)
}
