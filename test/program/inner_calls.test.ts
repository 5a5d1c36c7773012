/** What the vault does when another program calls it. */
import { expect, test } from 'bun:test'
import { addressOf } from '../../engine/chain/client/chain_client'
import { toHex } from '../../protocol/bytes'
import { depositCommitment } from '../../protocol/notes/notes'
import { initializeInstruction } from '../../protocol/vault/admin'
import { depositInstruction } from '../../protocol/vault/deposit'
import { EXIT_DELAY_S, element, errorOf, landed, OpenVault } from '../kit/vault/open_vault'
import { testKey, VaultChain } from '../kit/vault/vault_chain'
import { FORWARDER, FORWARDER_SO, forwarded } from './forwarder'

test('a deposit from inside another program is a deposit like any other', () => {
  const vault = new OpenVault()
  vault.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const [amount, inner] = [5_000n, element('inner')]
  const { events } = landed(vault.chain.send(forwarded(depositInstruction(vault.depositOf(amount, inner)))))
  const deposited = events.find((event) => event.kind === 'deposited')
  const commitment = depositCommitment({ mint: vault.mint, amount, inner, leaf_index: 0 })
  expect(deposited && toHex(deposited.commitment)).toBe(toHex(commitment))
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(amount)
})

test('a vault is never opened from inside another program, whose data may be larger than any transaction', () => {
  const chain = new VaultChain()
  chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const opening = initializeInstruction({
    program: chain.program,
    deployer: chain.payer.key,
    program_data: chain.programData(),
    admin: testKey('admin').key,
    settlement_signer: testKey('signer').key,
    exit_delay_s: EXIT_DELAY_S,
  })
  expect(errorOf(chain.send(forwarded(opening)))).toBe('not_top_level')
  landed(chain.send(opening))
})
