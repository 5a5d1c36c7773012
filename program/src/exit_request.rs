//! Owns the record of an open exit request.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::{require, Fault, Outcome, WRONG_ACCOUNT, WRONG_ADDRESS};

pub const SEED: &[u8] = b"exit";

/// Lamports beyond rent that a request puts up: 0.02 SOL.
pub const BOND: u64 = 20_000_000;

#[repr(C)]
pub struct ExitRequestData {
    head: Head,
    _zeros: [u8; 5],
    pub nullifier: Bytes32,
    pub commitment: Bytes32,
    pub mint: Bytes32,
    pub amount: u64,
    pub destination: Bytes32,
    pub refund_inner: Bytes32,
    pub bond_payer: Bytes32,
    pub deadline_s: u64,
    pub requested_slot: u64,
    _reserved: [u64; 2],
}

pub const EXIT_REQUEST_BYTES: usize = core::mem::size_of::<ExitRequestData>();
const _: () = assert!(EXIT_REQUEST_BYTES == 240);

impl Layout for ExitRequestData {
    const KIND: u8 = 5;
}

#[derive(Clone, Copy)]
pub struct ExitRequest {
    pub record: Record<ExitRequestData>,
    pub account: Account,
}

impl ExitRequest {
    /// `nullifier` derives the address; the caller takes it from the account itself where nothing else names it.
    pub fn load(account: Account, nullifier: Word, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        let key = nullifier.load();
        let record = Record::load(account, &Seeds(&[SEED, &key.0]), program)?;
        let request = ExitRequest { record, account };
        require(request.nullifier().equals(nullifier), WRONG_ADDRESS)?;
        Ok(request)
    }

    /// Loads a request by the nullifier it carries.
    pub fn load_any(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == EXIT_REQUEST_BYTES, WRONG_ACCOUNT)?;
        let unchecked = Record::<ExitRequestData>::unchecked(account);
        ExitRequest::load(account, word!(unchecked, nullifier), program)
    }

    pub fn nullifier(self) -> Word {
        word!(self.record, nullifier)
    }

    pub fn mint(self) -> Word {
        word!(self.record, mint)
    }

    pub fn amount(self) -> u64 {
        get!(self.record, amount)
    }

    pub fn destination(self) -> Word {
        word!(self.record, destination)
    }

    pub fn refund_inner(self) -> Word {
        word!(self.record, refund_inner)
    }

    pub fn deadline_s(self) -> u64 {
        get!(self.record, deadline_s)
    }

    /// Ends the request; rent and bond go back to who paid them.
    pub fn return_bond(self, bond_payer: Account) -> Outcome {
        bond_payer.require_key(word!(self.record, bond_payer))?;
        self.account.close(bond_payer)
    }
}
