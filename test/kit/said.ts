/** Runs a program to its end: its exit code and everything that it printed. */
export type Said = { code: number; out: string; error: string }

export async function said(child: Bun.Subprocess<Bun.SpawnOptions.Writable, 'pipe', 'pipe'>): Promise<Said> {
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const [code, [out, error]] = await Promise.all([child.exited, texts])
  return { code, out, error }
}

type Options = { cwd?: string; env?: Record<string, string | undefined>; stdin?: Blob }
export const run = (command: string[], options: Options = {}): Promise<Said> =>
  said(Bun.spawn(command, { ...options, stdout: 'pipe', stderr: 'pipe' }))
