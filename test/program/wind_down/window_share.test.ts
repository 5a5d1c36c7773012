/**
 * The program's only arithmetic of several steps, `window_share`, as its source has it: at a reduced width (u8 for u64, u16
 * for u128, with overflow checks) every claim, base and total below the bound is tried, and each share is the floor.
 */
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SOURCE = join(import.meta.dir, '../../../program/src/mint_record.rs')

/** The function's body from `shared` on, with the width of the types halved three times. */
function reduced(source: string): string {
  const body = /let shared = u128.*?\n {8}share\n/s.exec(source)![0]
  const narrow = body
    .replace('get!(self.0, window_base)', 'base')
    .replace('(0, 0, 64)', '(0u8, 0u16, 8)')
    .replaceAll('u128', 'u16')
    .replaceAll('u64', 'u8')
  return `fn window_share(amount: u8, base: u8, total: u16) -> u8 {\n${narrow}}
fn main() {
    let mut tried = 0u64;
    // The bound of the source, 2^127, is 2^15 here; in between, totals differ in nothing that the steps see.
    for total in (1..2_100u16).chain(32_600..32_768) {
        for amount in 1..=total.min(255) as u8 {
            for base in 0..=255u8 {
                let due = u64::from(amount) * u64::from(u16::from(base).min(total)) / u64::from(total);
                assert_eq!(u64::from(window_share(amount, base, total)), due, "{amount} {base} {total}");
                tried += 1;
            }
        }
    }
    println!("{tried}");
}
`
}

function build(folder: string): string | undefined {
  const rustc = Bun.which('rustc')
  if (rustc === null) return 'rustc is not installed'
  const path = join(folder, 'window_share.rs')
  writeFileSync(path, reduced(readFileSync(SOURCE, 'utf8')))
  const args = ['--edition=2021', '-Copt-level=3', '-Coverflow-checks=on', '-o', join(folder, 'window_share')]
  const { exitCode, stderr } = Bun.spawnSync([rustc, ...args, path], { stderr: 'pipe' })
  const text = stderr.toString()
  if (/can't find crate for `std`|linker `.*` not found/.test(text))
    return 'rustc builds nothing for this machine'
  expect([exitCode, text]).toEqual([0, expect.any(String)])
  return undefined
}

test('every share of a small wind-down is the floor of its part, and no step overflows', () => {
  const folder = mkdtempSync(join(tmpdir(), 'window-share-'))
  try {
    const missing = build(folder)
    if (missing !== undefined) return console.log(`shares are not tried exhaustively here: ${missing}`)
    const { exitCode, stdout, stderr } = Bun.spawnSync([join(folder, 'window_share')], { stderr: 'pipe' })
    expect([exitCode, stderr.toString()]).toEqual([0, ''])
    expect(Number(stdout.toString())).toBe(139_699_200)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}, 120_000)
