//! Reads the record of an exit request.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::Fault;

pub const SEED: &[u8] = b"exit";

/// Lamports beyond rent that a request puts up: 0.02 SOL.
pub const BOND: u64 = 20_000_000;

#[repr(C)]
pub struct ExitRequestData {
    head: Head,
    /// 1 once a batch has queued the payout.
    pub served: u8,
    _zeros: [u8; 4],
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
pub struct ExitRequest(pub Record<ExitRequestData>);

impl ExitRequest {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        let request = ExitRequest(Record::of(account, program)?);
        let nullifier = request.nullifier().load();
        request.0.require_derived(account, &Seeds(&[SEED, &nullifier.0]), program)?;
        Ok(request)
    }

    /// For an instruction that serves, refuses or closes the request.
    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        ExitRequest::load(account, program)
    }

    pub fn nullifier(self) -> Word {
        word!(self.0, nullifier)
    }

    pub fn is_served(self) -> bool {
        get!(self.0, served) != 0
    }
}
