/** Finds etcd for tests and sandbox: the file that TACIT_ETCD names, or `etcd` of PATH (Debian: `etcd-server`). */

export const ETCD = process.env['TACIT_ETCD'] ?? Bun.which('etcd') ?? undefined
if (ETCD === undefined)
  console.log('skipped: no cluster runs, as neither TACIT_ETCD nor PATH has etcd (Debian: etcd-server)')
