//! Owns the record of an open exit request.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::Word;
use crate::create::Seeds;
use crate::error::{require, Fault, Outcome, WRONG_ADDRESS};

pub const EXIT_REQUEST_BYTES: usize = 240;
pub const KIND: u8 = 5;

pub const SEED: &[u8] = b"exit";

/// Lamports beyond rent that a request puts up: 0.02 SOL.
pub const BOND: u64 = 20_000_000;

/// Layout: 8 nullifier · 40 commitment · 72 mint · 104 amount · 112 destination · 144 refund_inner · 176 bond_payer ·
/// 208 deadline_s · 216 requested_slot · 224 reserved.
#[derive(Clone, Copy)]
pub struct ExitRequest {
    pub record: Record<EXIT_REQUEST_BYTES>,
    pub account: Account,
}

impl ExitRequest {
    /// `nullifier` derives the address; the caller takes it from the account itself where nothing else names it.
    pub fn load(account: Account, nullifier: Word, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        let key = nullifier.load();
        let record = Record::load(account, KIND, &Seeds(&[SEED, &key.0]), program)?;
        let request = ExitRequest { record, account };
        require(request.nullifier().equals(nullifier), WRONG_ADDRESS)?;
        Ok(request)
    }

    /// Loads a request by the nullifier it carries.
    pub fn load_any(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == EXIT_REQUEST_BYTES, crate::error::WRONG_ACCOUNT)?;
        let nullifier = Word::at(unsafe { account.data().add(8) });
        ExitRequest::load(account, nullifier, program)
    }

    pub fn nullifier(self) -> Word {
        self.record.word::<8>()
    }

    pub fn mint(self) -> Word {
        self.record.word::<72>()
    }

    pub fn amount(self) -> u64 {
        self.record.u64::<104>()
    }

    pub fn destination(self) -> Word {
        self.record.word::<112>()
    }

    pub fn refund_inner(self) -> Word {
        self.record.word::<144>()
    }

    pub fn deadline_s(self) -> u64 {
        self.record.u64::<208>()
    }

    /// Ends the request; rent and bond go back to who paid them.
    pub fn return_bond(self, bond_payer: Account) -> Outcome {
        bond_payer.require_key(self.record.word::<176>())?;
        self.account.close(bond_payer)
    }
}
