/**
 * Measures what an attested epoch costs: bytes, compute units and lamports of each of its transactions, fees and rent apart.
 * `bun test/program/published/attested_costs.ts` prints the table of program/README.md.
 */
import { platformAddress } from '../../../protocol/vault/platforms'
import { AttestedVault } from '../../kit/vault/attested_vault'
import { developmentChain, PCK, PlatformKey } from '../../kit/vault/development_chain'
import { landed } from '../../kit/vault/open_vault'
import { type Changes, developmentEvidence, event } from '../../kit/vault/quoting_machine'

type Cost = { name: string; bytes: number; units: bigint; lamports: bigint; rent: bigint }

/** What the fee payer, who pays nothing else, has less. */
function paid(own: AttestedVault, name: string, rent: bigint, send: () => ReturnType<AttestedVault['open']>) {
  const balance = (): bigint => own.chain.account(own.chain.payer.key)!.lamports
  const before = balance()
  const { bytes, units } = landed(send())
  return { name, bytes, units, lamports: before - balance() - rent, rent }
}

function opened(name: string, evidence = developmentEvidence(), changes: Changes = {}): Cost {
  const own = new AttestedVault(evidence)
  return paid(own, `open_attested_epoch, ${name}`, 0n, () => own.open(changes))
}

/** Registering a machine, and an opening for each form of quote. */
export function attestedCosts(): Cost[] {
  const own = new AttestedVault()
  const { program } = own.vault
  const fields = {
    ...developmentChain({}, {}, new PlatformKey('priced')),
    program,
    payer: own.chain.payer.key,
  }
  // Every record of a platform has one size.
  const rent = own.chain.account(platformAddress(program, PCK.compressed))!.lamports
  return [
    paid(own, 'register_platform', rent, () => own.register(fields)),
    opened('version 4'),
    opened('version 5, TD 1.0', developmentEvidence(2)),
    opened('version 5, TD 1.5', developmentEvidence(3)),
    opened('an event more', developmentEvidence(), {
      log: (log) => [...log, event('application', new Uint8Array(32))],
    }),
  ]
}

export const attestedRow = ({ name, bytes, units, lamports, rent }: Cost): string =>
  `| ${[name, ...[bytes, units, lamports, rent].map((one) => one.toLocaleString('en'))].join(' | ')} |`

if (import.meta.main) for (const cost of attestedCosts()) console.log(attestedRow(cost))
