/** A mint is registered once, by the admin, and only when no authority can take, block or destroy the vault's tokens. */

import { describe, expect, test } from 'bun:test'
import { toHex } from '../../protocol/bytes'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, vaultTokenAddress } from '../../protocol/vault/addresses'
import { registerMintInstruction } from '../../protocol/vault/admin'
import { bytes32, errorOf, landed, MIN_DEPOSIT, MIN_EXIT, OpenVault } from '../kit/vault/open_vault'
import { DECIMALS, mintBytes } from '../kit/vault/tokens'
import { testKey } from '../kit/vault/vault_chain'

const mint = bytes32('second mint')

function fieldsOf(vault: OpenVault): Parameters<typeof registerMintInstruction>[0] {
  const { program, admin, chain } = vault
  return {
    program,
    admin: admin.key,
    payer: chain.payer.key,
    mint,
    token_program: TOKEN_PROGRAM,
    min_deposit: MIN_DEPOSIT,
    min_exit: MIN_EXIT,
  }
}

test('a record and an empty vault token account come into being', () => {
  const vault = new OpenVault()
  landed(vault.registerMint(mint, { freeze_authority: bytes32('issuer') }))
  expect(vault.chain.mintRecord(mint)).toMatchObject({
    mint,
    token_program: TOKEN_PROGRAM,
    vault_token: vaultTokenAddress(vault.program, mint),
    decimals: DECIMALS,
    freezable: true,
    mint_index: 1,
    min_deposit: MIN_DEPOSIT,
    min_exit: MIN_EXIT,
    liabilities: 0n,
  })
  const token = vault.chain.account(vaultTokenAddress(vault.program, mint))!
  expect(toHex(token.data.slice(0, 32))).toBe(toHex(mint))
  expect(toHex(token.data.slice(32, 64))).toBe(toHex(vault.chain.vault.config))
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ mint_index: 0, freezable: false })
  expect(vault.chain.config().mint_count).toBe(2)
})

test('a mint is registered once and by the admin alone', () => {
  const vault = new OpenVault()
  landed(vault.registerMint(mint))
  expect(errorOf(vault.registerMint(mint))).toBe('already_initialized')
  const thief = vault.chain.fund(testKey('thief'))
  const forged = registerMintInstruction({ ...fieldsOf(vault), admin: thief.key })
  expect(errorOf(vault.chain.send(forged))).toBe('not_admin')
  const unsigned = registerMintInstruction(fieldsOf(vault))
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('both minimums are at least one unit', () => {
  const vault = new OpenVault()
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const send = (fields: Partial<Parameters<typeof registerMintInstruction>[0]>): string =>
    errorOf(vault.chain.send(registerMintInstruction({ ...fieldsOf(vault), ...fields })))
  expect(send({ min_deposit: 0n })).toBe('invalid_data')
  expect(send({ min_exit: 0n })).toBe('invalid_data')
})

test('something that is not an initialized mint of the named token program is refused', () => {
  const vault = new OpenVault()
  expect(errorOf(vault.registerMint(mint, { initialized: false }))).toBe('mint_uninitialized')
  const register = (): string => errorOf(vault.chain.send(registerMintInstruction(fieldsOf(vault))))
  vault.setToken(mint, { owner: vault.trader.key })
  expect(register()).toBe('unsupported_mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_2022_PROGRAM)
  expect(register()).toBe('wrong_owner')
  const other = registerMintInstruction({ ...fieldsOf(vault), token_program: bytes32('token') })
  expect(errorOf(vault.chain.send(other))).toBe('wrong_address')
})

describe('Token-2022 extensions', () => {
  const register = (type: number, size: number): string => {
    const extensions = [{ type, value: new Uint8Array(size) }]
    return errorOf(new OpenVault().registerMint(mint, { extensions }, TOKEN_2022_PROGRAM))
  }
  const refused: [string, number, number][] = [
    ['transfer fee', 1, 108],
    ['close authority', 3, 32],
    ['default account state', 6, 1],
    ['non-transferable', 9, 0],
    ['permanent delegate', 12, 32],
    ['transfer hook', 14, 64],
    ['pausable', 26, 33],
    ['an unknown one', 9_999, 4],
  ]
  for (const [name, type, size] of refused)
    test(`${name} is refused`, () => expect(register(type, size)).toBe('unsupported_mint'))

  test('a refused one hides behind no allowed one', () => {
    const extensions = [
      { type: 18, value: new Uint8Array(64) },
      { type: 12, value: new Uint8Array(32) },
    ]
    expect(errorOf(new OpenVault().registerMint(mint, { extensions }, TOKEN_2022_PROGRAM))).toBe(
      'unsupported_mint',
    )
  })

  test('an entry that claims more bytes than there are is refused', () => {
    const vault = new OpenVault()
    const bytes = mintBytes({ extensions: [{ type: 18, value: new Uint8Array(64) }] })
    vault.chain.setAccount(mint, bytes, TOKEN_2022_PROGRAM)
    const fields = { ...fieldsOf(vault), token_program: TOKEN_2022_PROGRAM }
    const outcome = (): string => vault.chain.outcome(registerMintInstruction(fields))
    expect(outcome()).toBe('landed')
    // Behind the account type byte: type u16, length u16.
    bytes[168] = 65
    vault.chain.setAccount(mint, bytes, TOKEN_2022_PROGRAM)
    expect(outcome()).toBe('unsupported_mint')
  })

  test('metadata, interest display and none at all are accepted', () => {
    expect(register(18, 64)).toBe('landed')
    expect(register(10, 52)).toBe('landed')
    expect(errorOf(new OpenVault().registerMint(mint, {}, TOKEN_2022_PROGRAM))).toBe('landed')
  })
})
