//! Compares and copies 32-byte values in memory, and reads instruction data within its bounds.
use crate::error::{Fault, Outcome, INVALID_DATA};
use crate::syscalls::{sol_memcmp_, sol_memcpy_, sol_memset_};
use core::cmp::Ordering;

/// 32 bytes of our own, aligned so that moving them costs four instructions and not sixty-four.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Bytes32(pub [u8; 32]);

impl Bytes32 {
    pub const ZERO: Bytes32 = Bytes32([0; 32]);
}

/// A 32-byte value (key, hash, field element) wherever it lies: account data, instruction data or stack.
/// Account data changes under calls to other programs, which is why this is an address and not a reference.
#[derive(Clone, Copy)]
pub struct Word(*const u8);

static ZERO: Bytes32 = Bytes32::ZERO;

impl Word {
    /// The caller vouches for 32 readable bytes at `at`, as long as the value is used.
    #[inline(always)]
    pub const fn at(at: *const u8) -> Self {
        Word(at)
    }

    #[inline(always)]
    pub fn of(bytes: &Bytes32) -> Self {
        Word(bytes.0.as_ptr())
    }

    pub fn zero() -> Self {
        Word::of(&ZERO)
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *const u8 {
        self.0
    }

    #[inline(always)]
    pub fn compare(self, other: Word) -> Ordering {
        compare(self.0, other.0, 32)
    }

    #[inline(never)]
    pub fn equals(self, other: Word) -> bool {
        self.0 == other.0 || self.compare(other) == Ordering::Equal
    }

    pub fn is_zero(self) -> bool {
        self.equals(Word::zero())
    }

    #[inline(always)]
    pub fn copy_to(self, to: *mut u8) {
        copy(to, self.0, 32)
    }

    pub fn load(self) -> Bytes32 {
        let mut bytes = Bytes32::ZERO;
        self.copy_to(bytes.0.as_mut_ptr());
        bytes
    }
}

#[inline(never)]
pub fn compare(a: *const u8, b: *const u8, length: usize) -> Ordering {
    let mut result = 0i32;
    unsafe { sol_memcmp_(a, b, length as u64, &mut result) };
    result.cmp(&0)
}

#[inline(always)]
pub fn copy(to: *mut u8, from: *const u8, length: usize) {
    unsafe { sol_memcpy_(to, from, length as u64) }
}

#[inline(always)]
pub fn clear(at: *mut u8, length: usize) {
    unsafe { sol_memset_(at, 0, length as u64) }
}

pub fn is_blank(at: *const u8, length: usize) -> bool {
    let mut index = 0;
    while index < length {
        if unsafe { *at.add(index) } != 0 {
            return false;
        }
        index += 1;
    }
    true
}

/// Reads instruction data front to back; running out of bytes is `invalid_data`.
#[derive(Clone, Copy)]
pub struct Reader {
    at: *const u8,
    left: usize,
}

impl Reader {
    pub fn new(at: *const u8, length: usize) -> Self {
        Reader { at, left: length }
    }

    #[inline(always)]
    pub fn take(&mut self, length: usize) -> Result<*const u8, Fault> {
        if self.left < length {
            return Err(INVALID_DATA);
        }
        let at = self.at;
        self.at = unsafe { at.add(length) };
        self.left -= length;
        Ok(at)
    }

    #[inline(always)]
    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(unsafe { *self.take(1)? })
    }

    pub fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_le_bytes([self.u8()?, self.u8()?]))
    }

    #[inline(never)]
    pub fn u64(&mut self) -> Result<u64, Fault> {
        Ok(unsafe { (self.take(8)? as *const u64).read_unaligned() })
    }

    #[inline(always)]
    pub fn word(&mut self) -> Result<Word, Fault> {
        Ok(Word::at(self.take(32)?))
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Data is exact: trailing bytes are refused.
    pub fn end(&self) -> Outcome {
        crate::error::require(self.left == 0, INVALID_DATA)
    }
}
