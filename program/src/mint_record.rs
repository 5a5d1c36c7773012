//! Owns the record of a registered mint and its liability counter.
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
    liabilities: u64,
    _reserved: Bytes32,
}

pub const MINT_RECORD_BYTES: usize = core::mem::size_of::<MintRecordData>();
const _: () = assert!(MINT_RECORD_BYTES == 160);

impl Layout for MintRecordData {
    const KIND: u8 = 4;
}

#[derive(Clone, Copy)]
pub struct MintRecord(pub Record<MintRecordData>);

impl MintRecord {
    /// `mint` is the key the record must be about; its address is derived from it.
    pub fn load(account: Account, mint: Word, program: Word) -> Result<Self, Fault> {
        let key = mint.load();
        let record = MintRecord(Record::load(account, &Seeds(&[SEED, &key.0]), program)?);
        require(record.mint().equals(mint), WRONG_ADDRESS)?;
        Ok(record)
    }

    /// Loads a record by the mint it carries.
    pub fn load_any(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == MINT_RECORD_BYTES, WRONG_ACCOUNT)?;
        let unchecked = Record::<MintRecordData>::unchecked(account);
        MintRecord::load(account, word!(unchecked, mint), program)
    }

    pub fn begin(account: Account, bump: u8) -> Result<Self, Fault> {
        Ok(MintRecord(Record::begin(account, bump)?))
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

    pub fn raise_liabilities(self, amount: u64) -> Outcome {
        let raised = self.liabilities().checked_add(amount).ok_or(OVERFLOW)?;
        set!(self.0, liabilities, raised);
        Ok(())
    }

    pub fn lower_liabilities(self, amount: u64) -> Outcome {
        let lowered = self.liabilities().checked_sub(amount).ok_or(PAYOUT_ABOVE_LIABILITIES)?;
        set!(self.0, liabilities, lowered);
        Ok(())
    }
}
