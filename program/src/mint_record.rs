//! Reads and writes the record of a registered mint: what the vault owes in it.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;

pub const SEED: &[u8] = b"mint";
pub const VAULT_SEED: &[u8] = b"vault";

#[repr(C)]
pub struct MintRecordData {
    head: Head,
    pub vault_bump: u8,
    pub decimals: u8,
    pub freezable: u8,
    pub mint_index: u16,
    pub mint: Bytes32,
    pub token_program: Bytes32,
    pub vault_token: Bytes32,
    pub min_deposit: u64,
    pub min_exit: u64,
    /// Base units owed to notes and accrued fees.
    liabilities: u64,
    /// Base units owed to entries of the payout queue.
    queued: u64,
    /// Zeros: sums of a wind-down.
    _window: [u64; 3],
    _reserved: [u64; 8],
}

pub const MINT_RECORD_BYTES: usize = core::mem::size_of::<MintRecordData>();
const _: () = assert!(MINT_RECORD_BYTES == 224);

impl Layout for MintRecordData {
    const KIND: u8 = 4;
}

#[derive(Clone, Copy)]
pub struct MintRecord(pub Record<MintRecordData>);

impl MintRecord {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        let record = MintRecord(Record::of(account, program)?);
        let mint = record.mint().load();
        record.0.require_derived(account, &Seeds(&[SEED, &mint.0]), program)?;
        Ok(record)
    }

    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        MintRecord::load(account, program)
    }

    pub fn decimals(self) -> u8 {
        get!(self.0, decimals)
    }

    pub fn mint(self) -> Word {
        word!(self.0, mint)
    }

    pub fn token_program(self) -> Word {
        word!(self.0, token_program)
    }

    pub fn vault_token(self) -> Word {
        word!(self.0, vault_token)
    }

    pub fn min_deposit(self) -> u64 {
        get!(self.0, min_deposit)
    }

    pub fn min_exit(self) -> u64 {
        get!(self.0, min_exit)
    }

    pub fn liabilities(self) -> u64 {
        get!(self.0, liabilities)
    }

    pub fn queued(self) -> u64 {
        get!(self.0, queued)
    }

    pub fn raise_liabilities(self, amount: u64) -> Outcome {
        set!(self.0, liabilities, self.liabilities().checked_add(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// A payout leaves the liabilities for the queue.
    pub fn enqueue(self, amount: u64) -> Outcome {
        set!(self.0, liabilities, self.liabilities().checked_sub(amount).ok_or(PAYOUT_ABOVE_LIABILITIES)?);
        set!(self.0, queued, self.queued().checked_add(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// A queued payout was paid or became a note.
    pub fn dequeue(self, amount: u64) -> Outcome {
        set!(self.0, queued, self.queued().checked_sub(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// The vault's balance covers notes, accrued fees and queued payouts.
    pub fn require_solvent(self, balance: u64) -> Outcome {
        let owed = self.liabilities().checked_add(self.queued()).ok_or(OVERFLOW)?;
        require(balance >= owed, INSOLVENT)
    }
}
