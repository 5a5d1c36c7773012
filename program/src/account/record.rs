//! Owns typed access to the accounts this program keeps: offsets are checked when the program is compiled.
use super::Account;
use crate::bytes::{clear, Word};
use crate::create::{require_derived, Seeds};
use crate::error::{require, Fault, WRONG_ACCOUNT};

pub const VERSION: u8 = 1;

/// Data of an account of `SIZE` bytes: kind u8, version u8, bump u8, fields.
#[derive(Clone, Copy)]
pub struct Record<const SIZE: usize>(*mut u8);

impl<const SIZE: usize> Record<SIZE> {
    /// Checks owner, size, kind, version and that the address is the one derived from `seeds`.
    pub fn load(account: Account, kind: u8, seeds: &Seeds, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == SIZE, WRONG_ACCOUNT)?;
        let record = Record(account.data());
        require(record.u8::<0>() == kind && record.u8::<1>() == VERSION, WRONG_ACCOUNT)?;
        require_derived(account, seeds, record.u8::<2>(), program)?;
        Ok(record)
    }

    /// Takes over a freshly created account.
    pub fn begin(account: Account, kind: u8, bump: u8) -> Result<Self, Fault> {
        require(account.length() == SIZE, WRONG_ACCOUNT)?;
        let record = Record(account.data());
        clear(record.0, SIZE);
        record.set_u8::<0>(kind);
        record.set_u8::<1>(VERSION);
        record.set_u8::<2>(bump);
        Ok(record)
    }

    #[inline(always)]
    fn place<const AT: usize, const WIDTH: usize>(self) -> *mut u8 {
        const { assert!(AT + WIDTH <= SIZE) };
        unsafe { self.0.add(AT) }
    }

    #[inline(always)]
    pub fn u8<const AT: usize>(self) -> u8 {
        unsafe { self.place::<AT, 1>().read_volatile() }
    }

    #[inline(always)]
    pub fn set_u8<const AT: usize>(self, value: u8) {
        unsafe { self.place::<AT, 1>().write_volatile(value) }
    }

    /// Account data starts 8-aligned, so u64 fields at multiples of 8 are read whole.
    #[inline(always)]
    pub fn u64<const AT: usize>(self) -> u64 {
        const { assert!(AT % 8 == 0) };
        unsafe { (self.place::<AT, 8>() as *const u64).read_volatile() }
    }

    #[inline(always)]
    pub fn set_u64<const AT: usize>(self, value: u64) {
        const { assert!(AT % 8 == 0) };
        unsafe { (self.place::<AT, 8>() as *mut u64).write_volatile(value) }
    }

    #[inline(always)]
    pub fn u32<const AT: usize>(self) -> u32 {
        const { assert!(AT % 4 == 0) };
        unsafe { (self.place::<AT, 4>() as *const u32).read_volatile() }
    }

    #[inline(always)]
    pub fn set_u32<const AT: usize>(self, value: u32) {
        const { assert!(AT % 4 == 0) };
        unsafe { (self.place::<AT, 4>() as *mut u32).write_volatile(value) }
    }

    #[inline(always)]
    pub fn u16<const AT: usize>(self) -> u16 {
        const { assert!(AT % 2 == 0) };
        unsafe { (self.place::<AT, 2>() as *const u16).read_volatile() }
    }

    #[inline(always)]
    pub fn set_u16<const AT: usize>(self, value: u16) {
        const { assert!(AT % 2 == 0) };
        unsafe { (self.place::<AT, 2>() as *mut u16).write_volatile(value) }
    }

    #[inline(always)]
    pub fn word<const AT: usize>(self) -> Word {
        Word::at(self.place::<AT, 32>())
    }

    #[inline(always)]
    pub fn set_word<const AT: usize>(self, value: Word) {
        value.copy_to(self.place::<AT, 32>())
    }

    /// Start of an array field of `WIDTH` bytes.
    #[inline(always)]
    pub fn array<const AT: usize, const WIDTH: usize>(self) -> *mut u8 {
        self.place::<AT, WIDTH>()
    }
}
