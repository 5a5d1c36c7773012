//! Pays from the vault of a mint: finds out whether a destination can receive, and transfers.
use crate::account::Account;
use crate::config::Config;
use crate::error::*;
use crate::input::Call;
use crate::mint_record::MintRecord;
use crate::token::transfer::Transfer;
use crate::token::{read_vault, TokenAccount, TokenState};

/// Accounts above receive nothing: loading them may hinder other payments.
const DESTINATION_BYTES_MAX: usize = 1_024;

pub const TRANSFERRED: u8 = 0;
const DESTINATION_MISSING: u8 = 1;
const DESTINATION_WRONG_MINT: u8 = 2;
const DESTINATION_UNINITIALIZED: u8 = 3;
const DESTINATION_FROZEN: u8 = 4;
const DESTINATION_IS_VAULT: u8 = 5;
const DESTINATION_REFUSES: u8 = 6;
const VAULT_ACCOUNT_FROZEN: u8 = 7;
const DESTINATION_TOO_LARGE: u8 = 8;

/// Accounts of a payment, in this order: mint record, mint, vault token, token program. The destination follows.
pub struct PayoutMint {
    pub record: MintRecord,
    mint: Account,
    vault: Account,
    token: TokenAccount,
    token_program: Account,
}

impl PayoutMint {
    pub fn load(call: &Call, at: usize) -> Result<Self, Fault> {
        let (record, mint) = (call.get(at)?, call.get(at + 1)?);
        let (vault, token_program) = (call.get(at + 2)?, call.get(at + 3)?);
        let record = MintRecord::load_writable(record, call.program)?;
        mint.require_key(record.mint())?;
        token_program.require_key(record.token_program())?;
        let token = read_vault(vault, record.vault_token(), token_program.key())?;
        Ok(PayoutMint { record, mint, vault, token, token_program })
    }

    pub fn balance(&self) -> u64 {
        self.token.amount()
    }

    /// The first reason why `destination` cannot receive, or `TRANSFERRED`.
    fn outcome(&self, destination: Account) -> u8 {
        let Some(account) = TokenAccount::read(destination, self.token_program.key()) else {
            return DESTINATION_MISSING;
        };
        if !account.mint().equals(self.mint.key()) {
            return DESTINATION_WRONG_MINT;
        }
        match account.state() {
            TokenState::Uninitialized => return DESTINATION_UNINITIALIZED,
            TokenState::Frozen => return DESTINATION_FROZEN,
            TokenState::Initialized => {}
        }
        if destination.is(self.vault) {
            return DESTINATION_IS_VAULT;
        }
        if destination.length() > DESTINATION_BYTES_MAX {
            return DESTINATION_TOO_LARGE;
        }
        if !account.accepts_transfers() {
            return DESTINATION_REFUSES;
        }
        if self.token.state() != TokenState::Initialized {
            return VAULT_ACCOUNT_FROZEN;
        }
        TRANSFERRED
    }

    /// Transfers `amount` if the destination can receive; answers the outcome.
    pub fn pay(&self, destination: Account, amount: u64, config: Config) -> Result<u8, Fault> {
        let outcome = self.outcome(destination);
        if outcome != TRANSFERRED {
            return Ok(outcome);
        }
        // Only now: sysvars and programs are never writable, and an entry for one must end as a refund.
        destination.require_writable()?;
        let (before, from) = (self.token.amount(), self.vault);
        require(before >= amount, INSOLVENT)?;
        let (mint, token_program, decimals) = (self.mint, self.token_program, self.record.decimals());
        Transfer { token_program, from, mint, to: destination, amount, decimals }.from_vault(config)?;
        require(before.checked_sub(amount) == Some(self.token.amount()), TRANSFER_MISMATCH)?;
        Ok(TRANSFERRED)
    }
}
