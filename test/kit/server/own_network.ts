/** Runs a program in a separate network, set as compose.yaml sets the container's: this machine's stays as it is. */

type OwnNetwork = { run(script: string, ...parameters: string[]): unknown }

const PREPARE = 'ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"'

/** Undefined, with the reason printed, where this machine permits none. */
export function ownNetwork(): OwnNetwork | undefined {
  const within = (...command: string[]) =>
    Bun.spawnSync(['unshare', '--user', '--map-root-user', '--net', 'sh', '-c', PREPARE, 'sh', ...command], {
      stdout: 'pipe',
      stderr: 'pipe',
    })
  if (Bun.which('unshare') === null || within('true').exitCode !== 0) {
    console.log('skipped: no network namespace with tcp_migrate_req can be had here')
    return undefined
  }
  return {
    run(script, ...parameters) {
      const { stdout, stderr, exitCode } = within(process.execPath, script, ...parameters)
      if (exitCode !== 0) throw new Error(stderr.toString())
      return JSON.parse(stdout.toString())
    },
  }
}
