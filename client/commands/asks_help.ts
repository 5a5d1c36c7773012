/** Whether the arguments of a command ask how it is used; that is answered on standard output and is no failure. */
export function asksHelp(args: readonly string[]): boolean {
  return args[0] === 'help' || args.includes('--help') || args.includes('-h')
}
