//! Owns Poseidon over BN254 (circom parameters) through the runtime, big-endian.
use crate::bytes::{Bytes32, Word};
use crate::error::{Fault, HASH_FAILED};
use crate::syscalls::sol_poseidon;

const BN254_X5: u64 = 0;
const BIG_ENDIAN: u64 = 0;

/// The runtime's form of a byte slice.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    at: *const u8,
    length: u64,
}

/// Hashes `N` field elements into `result`, which may be one of the inputs.
#[inline(always)]
pub fn poseidon_into<const N: usize>(inputs: [Word; N], result: *mut u8) -> Result<(), Fault> {
    let slices = inputs.map(|word| Slice { at: word.as_ptr(), length: 32 });
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
