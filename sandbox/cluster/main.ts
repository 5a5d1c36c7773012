#!/usr/bin/env bun
/** `bun run cluster`: three nodes over one log on this machine, with a live table, and commands to kill, pause and replace them. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { Options, runCommand } from '../../client/cli/command'
import { ETCD } from './etcd_cluster'
import { LocalCluster, NODES, PROJECT } from './local_cluster'

const USAGE = `usage: bun run cluster [--slot-ms N] [--kill-after SECONDS] [--upgrade-after SECONDS] [--next FOLDER]
Starts three members of etcd, three nodes and one chain on this machine, in a new folder, until Ctrl-C.
Commands, one a line: kill N, pause N, resume N, start N, upgrade N, upgrade.
'upgrade' replaces all nodes, one after the other, by the build of --next and puts its newest version in force.
  --slot-ms      milliseconds per slot of the chain, default 400
  --kill-after   kills the leading node once, so many seconds after it serves; 0 for never
  --upgrade-after  begins an upgrade so many seconds after a node serves; 0 for never
  --next         a checkout with its packages installed; default this one, whose nodes are then started anew`

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['slot-ms', 'kill-after', 'upgrade-after', 'next'] })
  const slot_ms = Number(options.text('slot-ms', '400'))
  const kill_after_s = Number(options.text('kill-after', '0'))
  const upgrade_after_s = Number(options.text('upgrade-after', '0'))
  const next = resolve(options.text('next', PROJECT))
  if (ETCD === undefined)
    throw new Error('etcd is missing: install etcd-server, or name its file in TACIT_ETCD')
  const dir = mkdtempSync(join(tmpdir(), 'tacit-cluster-'))
  const cluster = await LocalCluster.open(dir, slot_ms, (error) => {
    console.error(error.message)
    process.exit(1)
  })
  let ending = false
  const end = () => {
    if (ending) return
    ending = true
    void cluster.stop().finally(() => process.exit(0))
  }
  process.on('SIGINT', end).on('SIGTERM', end)
  try {
    for (const number of NODES) cluster.start(number)
    const upgrade = async () => {
      const done = cluster.upgrade(next, (line) => console.log(line)).then(() => 'all nodes are replaced')
      console.log(await done.catch((error: Error) => `the upgrade ended: ${error.message}`))
    }
    createInterface({ input: process.stdin }).on('line', (line) => act(cluster, line, next, upgrade))
    if (upgrade_after_s > 0)
      void cluster.serving().then(() => setTimeout(() => void upgrade(), upgrade_after_s * 1_000))
    console.log(`Data: ${dir}`)
    await show(cluster, kill_after_s)
  } finally {
    await cluster.stop()
  }
})

function act(cluster: LocalCluster, line: string, next: string, upgrade: () => Promise<void>): void {
  if (line.trim() === 'upgrade') return void upgrade()
  const [, verb, digit] = /^\s*(kill|pause|resume|start|upgrade) ([123])\s*$/.exec(line) ?? []
  const number = Number(digit)
  if (verb === 'kill') void cluster.kill(number)
  else if (verb === 'pause') cluster.pause(number)
  else if (verb === 'resume') cluster.resume(number)
  else if (verb === 'upgrade') void cluster.replace(number, next)
  else if (verb === 'start' && cluster.stateOf(number) === 'down') cluster.start(number)
  else console.log('kill N, pause N, resume N, start N or upgrade N, with N from 1 to 3, or upgrade')
}

/** A line each second, and one for each change of the node that serves. */
async function show(cluster: LocalCluster, kill_after_s: number): Promise<never> {
  const log = await cluster.log()
  const urlAt = (node: number) => `https://localhost:${new URL(cluster.urlOf(node)).port}`
  const started_ms = performance.now()
  let serving: { number: number; since_ms: number } | undefined
  let lost_ms = started_ms
  let kills = kill_after_s > 0 ? 1 : 0
  for (let look = 0; ; look++) {
    const number = NODES.find((one) => cluster.stateOf(one) === 'serves')
    const now_ms = performance.now()
    if (number !== serving?.number) {
      if (number === undefined) lost_ms = now_ms
      else
        console.log(
          `node ${number} serves at ${cluster.facts(number)?.url}, after ${seconds(now_ms - lost_ms)}; through the others: ${NODES.filter(
            (one) => one !== number,
          )
            .map(urlAt)
            .join(' ')}`,
        )
      serving = number === undefined ? undefined : { number, since_ms: now_ms }
    }
    if (serving !== undefined && kills > 0 && now_ms - serving.since_ms > kill_after_s * 1_000) {
      kills--
      console.log(`kill -9 of node ${serving.number}`)
      void cluster.kill(serving.number)
    }
    if (look % 10 === 0) {
      const { head, term } = await log.look()
      const statuses = await Promise.all(NODES.map((one) => cluster.statusOf(one)))
      const states = NODES.map((one, at) => {
        const { lag_records, right, version } = statuses[at] ?? {}
        const lag = lag_records === undefined ? '' : `lag ${lag_records}`
        const link = lag === '' ? '' : right ? `epoch ${right.epoch}` : 'no link'
        return `node ${one} ${cluster.stateOf(one).padEnd(7)} ${lag.padEnd(6)} ${link.padEnd(8)} ${version === undefined ? '  ' : `v${version}`}`
      }).join('  ')
      console.log(
        `${seconds(now_ms - started_ms).padStart(7)}  ${states}  term ${term?.number ?? 0}  seq ${head.seq}`,
      )
    }
    await Bun.sleep(100)
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
