#!/usr/bin/env bun
/** `bun run demo`: plays the whole story against a real venue process, from verification to money in a token account. */
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { Options, runCommand } from '../../client/cli/command'
import { SOL, USDC } from '../environment'
import { chapter, check, DemoFailed, waiting } from './report'
import { fund } from './steps'
import { playStory, tradersDir, VenueProcess } from './story'

const MINTS = {
  sol: { mint: SOL, name: 'SOL', decimals: 9 },
  usdc: { mint: USDC, name: 'USDC', decimals: 6 },
}

const USAGE = `usage: bun run demo [--data DIR]
Plays the whole story against its own venue. DIR holds the venue's data, also of an earlier demo. Default data/demo.`

await runCommand(USAGE, async (args) => {
  const data_dir = resolve(new Options(args, { texts: ['data'] }).text('data', 'data/demo'))
  const traders_dir = tradersDir(data_dir)
  try {
    mkdirSync(traders_dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    const { code } = error as { code?: string }
    throw new Error(`the folder ${data_dir} cannot be written (${code}): name another with --data`)
  }
  const venue_process = new VenueProcess(data_dir, {
    TACIT_LISTEN: '127.0.0.1:0',
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    TACIT_SLOT_MS: '200',
  })
  // Ends the venue with the demo: otherwise it would lock the folder against the next demo.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    process.once(signal, () => void venue_process.kill().finally(() => process.exit(code)))
  try {
    chapter(
      'A venue starts and proves what it runs',
      'Before a trader sends it anything, the client judges its evidence by a policy that pins this build.',
    )
    const facts = await waiting('the venue', venue_process.start())
    const { ada, bob } = await playStory({ venue_process, facts, traders_dir, mints: MINTS, fund })
    for (const trader of [ada, bob]) trader.close()
    const exit_code = await waiting('the venue to drain', venue_process.stop())
    check(exit_code === 0, 'SIGTERM: the venue drains, anchors and exits with 0')
    console.log('\nThe demo ends: everything it promised was seen to hold.')
  } catch (error) {
    await venue_process.kill()
    if (!(error instanceof DemoFailed)) console.error(error)
    throw new Error(`\nThe demo stopped: ${(error as Error).message}`)
  }
})
