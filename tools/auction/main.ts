/**
 * `bun run auction FILE`, the auditor's command, answers every case of an auction file with the venue's own matching
 * code, one JSON object per line (matching.md "Auditing").
 */
import { readInputText, runCommand, UsageFault } from '../../client/cli/command'
import { answerCase, readCases } from './cases'

const USAGE = `usage: bun run auction FILE
Answers every case of a JSON file with one object a line: prices in ticks, quantities in lots, such as
{"own": [{"id": "one", "config": {"ref": 100, "bandBps": 500, "rule": "std4", "slot": 9}, "orders": [
  {"id": "a", "side": "buy", "price": 101, "qty": "5", "arrivalBatch": 1, "expirySlot": 20, "ioc": false, "minFill": "0"},
  {"id": "b", "side": "sell", "price": 99, "qty": "3", "arrivalBatch": 1, "expirySlot": 20, "ioc": true, "minFill": "0"}]}]}
Every field is described in tools/auction/cases.ts.
exit code: 0 answered, 1 no such file or not an auction file, 64 usage`

await runCommand(USAGE, async ([file, ...rest]) => {
  if (file === undefined || file.startsWith('--') || rest.length > 0) throw new UsageFault()
  for (const auction of readCases(readInputText(file))) console.log(JSON.stringify(answerCase(auction)))
})
