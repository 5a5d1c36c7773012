/** Opens a vault that announced a machine: each part of an opening can be replaced, and all of it is signed again. */
import { type OpenAttestedEpochFields, openAttestedEpochInstructions } from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { Chain } from './development_chain'
import { OpenVault } from './open_vault'
import { type Changes, QuotingMachine } from './quoting_machine'
import type { Failed, Landed } from './vault_chain'

export class AttestedVault {
  readonly vault: OpenVault
  readonly chain: OpenVault['chain']
  readonly authority: OpenVault['authority']

  constructor(...parts: ConstructorParameters<typeof QuotingMachine>) {
    this.vault = new OpenVault(new QuotingMachine(...parts))
    this.chain = this.vault.chain
    this.authority = this.vault.authority
    this.vault.announceMachine()
  }

  announce(...change: Parameters<OpenVault['announce']>): void {
    this.vault.announce(...change)
  }

  register(chain: Chain): Landed | Failed {
    return this.vault.registerPlatform(chain)
  }

  together(before: VaultInstruction, last: VaultInstruction): Landed | Failed {
    return this.chain.send([before, last])
  }

  /** The fields of the opening that lands now, with some parts replaced. */
  fields(changes: Changes = {}): OpenAttestedEpochFields {
    return this.vault.quoted({}, changes)
  }

  opening(changes?: Changes): [VaultInstruction, VaultInstruction] {
    return openAttestedEpochInstructions(this.fields(changes))
  }

  open(changes?: Changes): Landed | Failed {
    return this.chain.send(this.opening(changes))
  }

  /** Simulated, so that one vault serves many cases. */
  outcome(changes?: Changes): string {
    return this.chain.outcome(this.opening(changes))
  }
}
