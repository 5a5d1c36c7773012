/** Ends the process with the usage on standard output where the command line asks for it, which is no failure. */
export function answerHelp(usage: string): void {
  const args = process.argv.slice(2)
  if (args[0] !== 'help' && !args.includes('--help') && !args.includes('-h')) return
  console.log(usage)
  process.exit(0)
}
