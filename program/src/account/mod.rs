//! Accesses one account of a call as the runtime serialized it, and makes the checks common to all instructions.
use crate::bytes::{clear, Word};
use crate::error::*;

#[macro_use]
pub mod record;

/// Address of an account in the runtime's parameters: duplicate marker u8, signer u8, writable u8, executable u8,
/// 4 bytes, key (32), owner (32), lamports u64, data length u64, data.
#[derive(Clone, Copy)]
pub struct Account(*mut u8);

const SIGNER: usize = 1;
const WRITABLE: usize = 2;
const EXECUTABLE: usize = 3;
const KEY: usize = 8;
const OWNER: usize = 40;
const LAMPORTS: usize = 72;
const LENGTH: usize = 80;
const DATA: usize = 88;

impl Account {
    pub const HEADER_BYTES: usize = DATA;

    #[inline(always)]
    pub const fn at(at: *mut u8) -> Self {
        Account(at)
    }

    #[inline(always)]
    fn place(self, offset: usize) -> *mut u8 {
        unsafe { self.0.add(offset) }
    }

    pub fn is_signer(self) -> bool {
        unsafe { *self.place(SIGNER) != 0 }
    }

    pub fn is_writable(self) -> bool {
        unsafe { *self.place(WRITABLE) != 0 }
    }

    pub fn is_executable(self) -> bool {
        unsafe { *self.place(EXECUTABLE) != 0 }
    }

    #[inline(always)]
    pub fn key(self) -> Word {
        Word::at(self.place(KEY))
    }

    #[inline(always)]
    pub fn owner(self) -> Word {
        Word::at(self.place(OWNER))
    }

    pub fn lamports_at(self) -> *mut u64 {
        self.place(LAMPORTS) as *mut u64
    }

    pub fn lamports(self) -> u64 {
        unsafe { self.lamports_at().read_volatile() }
    }

    #[inline(always)]
    pub fn length(self) -> usize {
        unsafe { (self.place(LENGTH) as *const u64).read_volatile() as usize }
    }

    #[inline(always)]
    pub fn data(self) -> *mut u8 {
        self.place(DATA)
    }

    /// Two places of a call name the same account exactly when the runtime gave them one address.
    pub fn is(self, other: Account) -> bool {
        self.0 == other.0
    }

    pub fn require_signer(self) -> Outcome {
        require(self.is_signer(), MISSING_SIGNATURE)
    }

    pub fn require_writable(self) -> Outcome {
        require(self.is_writable(), NOT_WRITABLE)
    }

    pub fn require_key(self, key: Word) -> Outcome {
        require(self.key().equals(key), WRONG_ADDRESS)
    }

    pub fn require_owner(self, owner: Word) -> Outcome {
        require(self.owner().equals(owner), WRONG_OWNER)
    }

    pub fn require_system_program(self) -> Outcome {
        self.require_key(Word::zero())
    }

    /// True for an address that holds no account data and belongs to the system program.
    pub fn is_vacant(self) -> bool {
        self.length() == 0 && self.owner().equals(Word::zero())
    }

    /// Zeros appear at the end; the runtime allows 10,240 more bytes per instruction.
    pub fn set_length(self, length: usize) {
        unsafe { (self.place(LENGTH) as *mut u64).write_volatile(length as u64) }
    }

    /// Moves lamports of a writable account of this program to `receiver`, another account.
    pub fn give(self, receiver: Account, lamports: u64) -> Outcome {
        receiver.require_writable()?;
        let left = self.lamports().checked_sub(lamports).ok_or(OVERFLOW)?;
        let total = receiver.lamports().checked_add(lamports).ok_or(OVERFLOW)?;
        unsafe {
            receiver.lamports_at().write_volatile(total);
            self.lamports_at().write_volatile(left);
        }
        Ok(())
    }

    /// Gives every lamport of a writable account to `receiver`, another account, and leaves an empty account of the system program
    /// behind, so that lamports sent to the address later in the transaction revive nothing.
    pub fn close(self, receiver: Account) -> Outcome {
        self.give(receiver, self.lamports())?;
        clear(self.data(), self.length());
        self.set_length(0);
        Word::zero().copy_to(self.place(OWNER));
        Ok(())
    }
}
