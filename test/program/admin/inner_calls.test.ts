/** What the vault does when another program calls it: a multisig can do everything an admin can. */
import { expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import {
  authorizeRestoreInstruction,
  declareOutageInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { announceInstruction } from '../../../protocol/vault/announcements'
import { depositInstruction } from '../../../protocol/vault/deposit'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  errorOf,
  initializationOf,
  landed,
  runningVault,
} from '../../kit/vault/open_vault'
import { mintBytes } from '../../kit/vault/tokens'
import { testKey, VaultChain } from '../../kit/vault/vault_chain'
import { bySignedMultisig, FORWARDER, FORWARDER_SO, forwarded, MULTISIG } from '../forwarder'

test('a deposit from inside another program is a deposit like any other', () => {
  const vault = runningVault(0n)
  vault.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const deposit = depositInstruction(vault.depositOf(5_000n, element('inner')))
  const { events } = landed(vault.chain.send(forwarded(deposit)))
  expect(events.map(({ kind }) => kind)).toEqual(['deposited'])
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(5_000n)
})

test('an epoch is never opened from inside another program, whose data may be larger than any transaction', () => {
  const vault = runningVault(0n)
  vault.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  expect(errorOf(vault.chain.send(forwarded(vault.opening()[1])))).toBe('not_top_level')
  landed(vault.openEpoch())
})

test('a multisig deploys the vault and administers it, each time as an inner call that only it signs', () => {
  const chain = new VaultChain()
  chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const { address } = MULTISIG
  chain.svm.airdrop(addressOf(address), 100_000_000_000n as never)
  chain.setUpgradeAuthority(address)
  const admin = { program: chain.program, admin: address }
  const mint = bytes32('mint')
  chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const minimums = { min_deposit: 1n, min_exit: 1n }
  const steps: VaultInstruction[] = [
    initializeInstruction({ ...initializationOf(chain), deployer: address, admin: address }),
    registerMintInstruction({ ...admin, ...minimums, payer: address, mint, token_program: TOKEN_PROGRAM }),
    pauseInstruction(admin),
    unpauseInstruction(admin),
    declareOutageInstruction({ ...admin, extra_s: EXIT_DELAY_S }),
    authorizeRestoreInstruction({ ...admin, action: 'announce' }),
    authorizeRestoreInstruction({ ...admin, action: 'cancel' }),
    setAdminInstruction({ ...admin, action: 'announce', key: testKey('next admin').key }),
    setAdminInstruction({ ...admin, action: 'cancel' }),
    announceInstruction({
      ...admin,
      payer: address,
      action: 'announce',
      list: 'build',
      id: bytes32('compose'),
    }),
  ]
  for (const step of steps) {
    const plain = forwarded(step)
    expect(['missing_signature', 'not_deployer']).toContain(errorOf(chain.send(plain)))
    landed(chain.send(bySignedMultisig(step)))
  }
  expect(chain.config()).toMatchObject({ admin: address, mint_count: 1 })
})
