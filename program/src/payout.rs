//! Owns one payout of a batch: who is paid, whether the destination is usable, and the refund note otherwise.
use crate::account::Account;
use crate::batch::Batch;
use crate::bytes::{Bytes32, Reader, Word};
use crate::config::Config;
use crate::error::*;
use crate::event::Event;
use crate::exit_request::ExitRequest;
use crate::field::require_element;
use crate::input::Call;
use crate::mint_record::MintRecord;
use crate::note::deposit_commitment;
use crate::token::{read_vault, TokenAccount, TokenState};
use crate::transfer::Transfer;

pub const PAYOUT_MINTS_MAX: usize = 8;
/// Bytes `Payout::write` writes.
pub const RESULT_BYTES: usize = 178;
const WITHDRAWAL: u8 = 0;
const EXIT: u8 = 1;

pub const PAID: u8 = 0;
const DESTINATION_MISSING: u8 = 1;
const DESTINATION_WRONG_MINT: u8 = 2;
const DESTINATION_UNINITIALIZED: u8 = 3;
const DESTINATION_FROZEN: u8 = 4;
const DESTINATION_IS_VAULT: u8 = 5;
const DESTINATION_REFUSES: u8 = 6;
const VAULT_ACCOUNT_FROZEN: u8 = 7;

/// The accounts of one mint that a batch pays out in.
#[derive(Clone, Copy)]
pub struct PayoutMint {
    pub record: MintRecord,
    pub record_account: Account,
    pub mint: Account,
    pub vault: Account,
    pub token: TokenAccount,
    pub token_program: Account,
}

impl PayoutMint {
    /// Reads mint_record, mint, vault_token, token_program from place `at` of the account list.
    pub fn load(call: &Call, at: usize) -> Result<Self, Fault> {
        PayoutMint::load_at(call, [at, at + 1, at + 2, at + 3])
    }

    /// The same four accounts wherever they stand.
    pub fn load_at(call: &Call, places: [usize; 4]) -> Result<Self, Fault> {
        let (record_account, mint) = (call.get(places[0])?, call.get(places[1])?);
        let (vault, token_program) = (call.get(places[2])?, call.get(places[3])?);
        record_account.require_writable()?;
        let record = MintRecord::load(record_account, mint.key(), call.program)?;
        token_program.require_key(record.token_program())?;
        let token = read_vault(vault, record.vault_token(), token_program.key())?;
        Ok(PayoutMint { record, record_account, mint, vault, token, token_program })
    }

    /// What the vault owes stays covered.
    pub fn require_solvent(&self) -> Outcome {
        require(self.token.amount() >= self.record.liabilities(), INSOLVENT)
    }

    /// The first reason why `destination` cannot be paid, or `PAID`.
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
        if !account.accepts_transfers() {
            return DESTINATION_REFUSES;
        }
        if self.token.state() != TokenState::Initialized {
            return VAULT_ACCOUNT_FROZEN;
        }
        PAID
    }

    /// Pays `amount` if the destination is usable; answers the outcome.
    pub fn pay(&self, destination: Account, amount: u64, config: Config) -> Result<u8, Fault> {
        require(amount <= self.record.liabilities(), PAYOUT_ABOVE_LIABILITIES)?;
        let outcome = self.outcome(destination);
        if outcome != PAID {
            return Ok(outcome);
        }
        // Only now: sysvars and programs are never writable, and a payout to one must end as a refund.
        destination.require_writable()?;
        self.record.lower_liabilities(amount)?;
        let (before, from) = (self.token.amount(), self.vault);
        let (mint, token_program, decimals) = (self.mint, self.token_program, self.record.decimals());
        Transfer { token_program, from, mint, to: destination, amount, decimals }.from_vault(config)?;
        require(before.checked_sub(amount) == Some(self.token.amount()), TRANSFER_MISMATCH)?;
        Ok(PAID)
    }
}

/// A payout as instruction data carries it: kind u8, mint u8, nullifier u8, amount u64, inner (32).
pub struct Payout {
    kind: u8,
    pub mint: usize,
    nullifier: usize,
    pub amount: u64,
    pub inner: Word,
}

impl Payout {
    pub fn read(data: &mut Reader) -> Result<Self, Fault> {
        let payout = Payout {
            kind: data.u8()?,
            mint: data.u8()? as usize,
            nullifier: data.u8()? as usize,
            amount: data.u64()?,
            inner: data.word()?,
        };
        require(payout.kind == EXIT || (payout.kind == WITHDRAWAL && payout.nullifier == 0), INVALID_DATA)?;
        require(payout.amount != 0, INVALID_DATA)?;
        require_element(payout.inner)?;
        Ok(payout)
    }

    pub fn is_exit(&self) -> bool {
        self.kind == EXIT
    }

    /// Destination, and for exits also request and bond payer.
    pub fn account_count(&self) -> usize {
        if self.is_exit() {
            3
        } else {
            1
        }
    }

    /// An exit pays exactly what its request says, for a nullifier this batch spends; its bond returns.
    pub fn serve_exit(&self, call: &Call, at: usize, mint: Word, batch: &Batch) -> Result<Word, Fault> {
        let nullifier = batch.nullifier(self.nullifier)?;
        let request = ExitRequest::load(call.get(at + 1)?, nullifier, call.program)?;
        let same = request.mint().equals(mint)
            && request.amount() == self.amount
            && request.refund_inner().equals(self.inner)
            && call.get(at)?.key().equals(request.destination());
        require(same, PAYOUT_MISMATCH)?;
        request.return_bond(call.get(at + 2)?)?;
        Ok(nullifier)
    }

    /// The note that comes back when the destination is unusable.
    pub fn refund(&self, mint: Word, leaf_index: u64) -> Result<Bytes32, Fault> {
        deposit_commitment(mint, self.amount, self.inner, leaf_index)
    }

    pub fn write(&self, event: &mut Event, result: &PayoutResult) {
        event.u8(self.kind);
        event.u8(result.outcome);
        event.word(result.mint);
        event.u64(self.amount);
        event.word(result.destination);
        event.u64(result.refund_leaf_index);
        event.word(result.refund);
        event.word(self.inner);
        event.word(result.nullifier);
    }
}

/// What became of a payout; words that do not apply are zero.
pub struct PayoutResult {
    pub outcome: u8,
    pub mint: Word,
    pub destination: Word,
    pub refund_leaf_index: u64,
    pub refund: Word,
    pub nullifier: Word,
}
