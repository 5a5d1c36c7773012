//! Hashes through the runtime: Poseidon over BN254 (circom parameters), big-endian, and SHA-256.
use crate::bytes::{Bytes32, Word};
use crate::error::{Fault, HASH_FAILED};
use crate::syscalls::{sol_poseidon, sol_sha256};

const BN254_X5: u64 = 0;
const BIG_ENDIAN: u64 = 0;

/// The runtime's form of a byte slice.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    at: *const u8,
    length: u64,
}

impl Slice {
    #[inline(always)]
    pub fn of(at: *const u8, length: usize) -> Self {
        Slice { at, length: length as u64 }
    }
}

impl From<Word> for Slice {
    #[inline(always)]
    fn from(word: Word) -> Self {
        Slice::of(word.as_ptr(), 32)
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Self {
        Slice::of(bytes.as_ptr(), bytes.len())
    }
}

/// SHA-256 of the parts one after the other.
#[inline(always)]
pub fn sha256<const N: usize>(parts: [Slice; N]) -> Bytes32 {
    let mut result = Bytes32::ZERO;
    // Fails only for ranges outside the program's memory, which end the program anyway.
    unsafe { sol_sha256(parts.as_ptr() as *const u8, N as u64, result.0.as_mut_ptr()) };
    result
}

/// Hashes `N` field elements into `result`, which may be one of the inputs.
#[inline(always)]
pub fn poseidon_into<const N: usize>(inputs: [Word; N], result: *mut u8) -> Result<(), Fault> {
    let slices = inputs.map(Slice::from);
    let status =
        unsafe { sol_poseidon(BN254_X5, BIG_ENDIAN, slices.as_ptr() as *const u8, N as u64, result) };
    if status != 0 {
        return Err(HASH_FAILED);
    }
    Ok(())
}

pub fn poseidon<const N: usize>(inputs: [Word; N]) -> Result<Bytes32, Fault> {
    let mut result = Bytes32::ZERO;
    poseidon_into(inputs, result.0.as_mut_ptr())?;
    Ok(result)
}

/// A u64 as a field element.
pub fn element(value: u64) -> Bytes32 {
    let mut bytes = Bytes32::ZERO;
    bytes.0[24..].copy_from_slice(&value.to_be_bytes());
    bytes
}

/// The first 16 bytes of a key as a field element.
pub fn high_half(key: Word) -> Bytes32 {
    half(key.as_ptr())
}

/// The last 16 bytes of a key as a field element.
pub fn low_half(key: Word) -> Bytes32 {
    half(unsafe { key.as_ptr().add(16) })
}

fn half(from: *const u8) -> Bytes32 {
    let mut bytes = Bytes32::ZERO;
    crate::bytes::copy(unsafe { bytes.0.as_mut_ptr().add(16) }, from, 16);
    bytes
}
