/** What `register_mint` must be and do. */
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { mintRecordSeeds, vaultTokenSeeds } from '../../../../protocol/vault/addresses'
import { accountsOf, type Call, createAccount, must, mustBeSystem, VERSION } from './call'
import { CONFIG, isFrozen, mustBeAdmin, writableConfig } from './config_account'
import { Fields, setU16, setU64, u16At } from './fields'
import { isTokenProgram, MINT_RECORD, mustBeMint } from './tokens'

export function judgeRegisterMint(call: Call): void {
  const [admin, payer, config_account, record, mint, vault, token_program, system] = accountsOf(call, 8)
  const fields = new Fields(call.data)
  const [min_deposit, min_exit] = [fields.u64(), fields.u64()]
  fields.end()
  const config = writableConfig(call, config_account)
  mustBeAdmin(config, admin)
  must(!isFrozen(config), 'a mint for a frozen vault')
  must(min_deposit > 0n && min_exit > 0n, 'a minimum of nothing')
  mustBeSystem(system)
  must(isTokenProgram(token_program.address), 'no token program')
  mustBeMint(mint.state, token_program.address)
  const index = u16At(config, CONFIG.mint_count)
  must(index < 65_535, 'too many mints')
  const own = { size: ACCOUNT_BYTES.mint_record, owner: call.vault.program, bond: 0n }
  const made = createAccount(call, payer, record, { ...own, seeds: mintRecordSeeds(mint.address) })
  const tokens = { seeds: vaultTokenSeeds(mint.address), size: 165, owner: token_program.address, bond: 0n }
  const { data: token, bump: vault_bump } = createAccount(call, payer, vault, tokens)
  token.set(mint.address, 0)
  token.set(config_account.address, 32)
  token[108] = 1
  const { data } = made
  data.set([4, VERSION, made.bump, vault_bump, mint.state.data[44]!, mint.state.data[46] === 0 ? 0 : 1])
  setU16(data, 6, index)
  data.set(mint.address, MINT_RECORD.mint)
  data.set(token_program.address, MINT_RECORD.token_program)
  data.set(vault.address, MINT_RECORD.vault_token)
  setU64(data, MINT_RECORD.min_deposit, min_deposit)
  setU64(data, MINT_RECORD.min_exit, min_exit)
  setU16(config, CONFIG.mint_count, index + 1)
  call.report.mints.push(mint.address)
}
