/** Settings of a venue with a stand-in enclave on a validator: one instrument, wrapped SOL against a mint of the run. */

const SOL = 'So11111111111111111111111111111111111111112'

export function venueEnvironment(on: {
  rpc_url: string
  program_id: string
  usdc: string
  /** ADDRESS:PORT */
  listen: string
}): Record<string, string> {
  const mints = [
    { mint: SOL, decimals: 9, min_withdraw: '1000000', withdraw_fee: '100000' },
    { mint: on.usdc, decimals: 6, min_withdraw: '1000000', withdraw_fee: '50000' },
  ]
  const instrument = {
    symbol: 'SOL-USDC',
    base_mint: SOL,
    quote_mint: on.usdc,
    base_decimals: 9,
    quote_decimals: 6,
    lot_size: '1000000',
    tick_size: '1000',
    min_amount: '10000000',
    max_amount: '1000000000000',
    batch_slots: 5,
    collar_bps: 500,
    fee_bps: 5,
    reference_policy: 'last',
    initial_reference: '150000000',
    price_rule: 'std4',
    volume_tolerance_bps: 0,
  }
  return {
    TACIT_ENCLAVE: 'development',
    TACIT_LISTEN: on.listen,
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    SOLANA_RPC_URL: on.rpc_url,
    TACIT_PROGRAM_ID: on.program_id,
    TACIT_MINTS: JSON.stringify(mints),
    TACIT_INSTRUMENTS: JSON.stringify([instrument]),
  }
}
