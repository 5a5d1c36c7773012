/**
 * Runs a command of an operator or auditor and ends the process: 0 done, 1 refused or failed with a sentence, 64 a fault
 * of usage. So a script that acts on 1, such as "this backup may not trade", never takes a mistyped option for it.
 */
import { answerHelp } from '../client/cli/options'

/** Invalid arguments; without a message only the usage is printed. */
export class UsageFault extends Error {}

const REFUSED = 1
const USAGE_FAULT = 64

/** `run` answers false where it judged and refused. */
export async function runCommand(usage: string, run: (args: string[]) => unknown): Promise<never> {
  answerHelp(usage)
  try {
    process.exit((await run(process.argv.slice(2))) === false ? REFUSED : 0)
  } catch (error) {
    const { message } = error as Error
    if (!isUsageFault(error)) {
      console.error(message)
      process.exit(REFUSED)
    }
    console.error(message === '' ? usage : `${message}\n\n${usage}`)
    process.exit(USAGE_FAULT)
  }
}

function isUsageFault(error: unknown): boolean {
  if (error instanceof UsageFault) return true
  return String((error as { code?: unknown }).code).startsWith('ERR_PARSE_ARGS')
}
