//! Calls the token programs.
use crate::account::Account;
use crate::bytes::Word;
use crate::config::{Config, SEED};
use crate::cpi::{invoke, Outgoing, Use};
use crate::error::Outcome;

const TRANSFER_CHECKED: u8 = 12;
const INITIALIZE_ACCOUNT_3: u8 = 18;

/// Amount and accounts of a transfer.
pub struct Transfer {
    pub token_program: Account,
    pub from: Account,
    pub mint: Account,
    pub to: Account,
    pub amount: u64,
    pub decimals: u8,
}

impl Transfer {
    /// Number u8, amount u64, decimals u8.
    fn data(&self) -> [u8; 10] {
        let mut data = [0; 10];
        data[0] = TRANSFER_CHECKED;
        data[1..9].copy_from_slice(&self.amount.to_le_bytes());
        data[9] = self.decimals;
        data
    }

    fn run(&self, authority: Account, seeds: &[&[u8]]) -> Outcome {
        let data = self.data();
        let uses =
            [Use::write(self.from), Use::read(self.mint), Use::write(self.to), Use::read(authority).signed()];
        invoke(uses, &Outgoing { program: self.token_program.key(), data: &data, seeds })
    }

    /// From an account whose owner or delegate signed the transaction.
    pub fn from_signer(&self, authority: Account) -> Outcome {
        self.run(authority, &[])
    }

    /// From the vault, whose authority is the config account.
    pub fn from_vault(&self, config: Config) -> Outcome {
        let bump = [config.bump()];
        self.run(config.account, &[SEED, &bump])
    }
}

/// Makes a fresh account a token account of `mint` owned by `owner`.
pub fn initialize_token_account(
    token_program: Account,
    account: Account,
    mint: Account,
    owner: Word,
) -> Outcome {
    let mut data = [0u8; 33];
    data[0] = INITIALIZE_ACCOUNT_3;
    owner.copy_to(data[1..].as_mut_ptr());
    let uses = [Use::write(account), Use::read(mint)];
    invoke(uses, &Outgoing { program: token_program.key(), data: &data, seeds: &[] })
}
