//! Reads the record of a claim, which stays when it is paid or cancelled: a note has one claim at most.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;

pub const SEED: &[u8] = b"escape";

/// Lamports beyond rent that a claim puts up: 0.05 SOL.
pub const BOND: u64 = 50_000_000;

const OPEN: u8 = 0;
pub const PAID: u8 = 1;
pub const CANCELLED: u8 = 2;

/// Claimed after the window: gets the rest that window claims leave.
pub const LATE: u8 = 0;
/// Claimed within one exit delay of the freeze: gets its share of the base.
pub const WINDOW: u8 = 1;
/// A refund note that `pay` appended after the freeze: its amount is still queued.
pub const REFUND: u8 = 2;

#[repr(C)]
pub struct EscapeClaimData {
    head: Head,
    pub state: u8,
    pub rank: u8,
    _zeros: [u8; 3],
    pub nullifier: Bytes32,
    pub mint: Bytes32,
    pub amount: u64,
    pub destination: Bytes32,
    pub owner: Bytes32,
    pub bond_payer: Bytes32,
    pub claimed_at_s: u64,
    /// Changes of the destination.
    pub sequence: u64,
    pub paid: u64,
}

pub const ESCAPE_CLAIM_BYTES: usize = core::mem::size_of::<EscapeClaimData>();
const _: () = assert!(ESCAPE_CLAIM_BYTES == 200);

impl Layout for EscapeClaimData {
    const KIND: u8 = 8;
}

/// The claim in a writable account, which is neither paid nor cancelled.
pub fn load_open(account: Account, program: Word) -> Result<Record<EscapeClaimData>, Fault> {
    account.require_writable()?;
    let claim = Record::<EscapeClaimData>::of(account, program)?;
    let nullifier = word!(claim, nullifier).load();
    claim.require_derived(account, &Seeds(&[SEED, &nullifier.0]), program)?;
    require(get!(claim, state) == OPEN, CLAIM_CLOSED)?;
    Ok(claim)
}
