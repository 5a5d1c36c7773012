//! Finds out from the instructions sysvar whether the runtime verified two P-256 signatures in this instruction's own data.
use crate::account::Account;
use crate::bytes::{compare, Bytes32, Reader, Word};
use crate::error::*;
use crate::syscalls::sol_get_stack_height;
use core::cmp::Ordering;

/// Secp256r1SigVerify1111111111111111111111111
static SECP256R1: Bytes32 = Bytes32([
    0x06, 0x92, 0x0d, 0xec, 0x2f, 0xea, 0x71, 0xb5, 0xb7, 0x23, 0x81, 0x4d, 0x74, 0x2d, 0xa9, 0x03, 0x1c,
    0x83, 0xe7, 0x5f, 0xdb, 0x79, 0x5d, 0x56, 0x8e, 0x75, 0x47, 0x80, 0x20, 0x00, 0x00, 0x00,
]);
/// Sysvar1nstructions1111111111111111111111111
static INSTRUCTIONS: Bytes32 = Bytes32([
    0x06, 0xa7, 0xd5, 0x17, 0x18, 0x7b, 0xd1, 0x66, 0x35, 0xda, 0xd4, 0x04, 0x55, 0xfd, 0xc2, 0xc0, 0xc1,
    0x24, 0xc6, 0x8f, 0x21, 0x56, 0x75, 0xa5, 0xdb, 0xba, 0xcb, 0x5f, 0x08, 0x00, 0x00, 0x00,
]);

const TOP_LEVEL: u64 = 1;
const DATA_BYTES: usize = 30;

/// Places in this instruction's data, its first byte included.
#[derive(Clone, Copy)]
pub struct Signed {
    pub signature: u16,
    /// A compressed key.
    pub key: u16,
    pub message: u16,
    pub length: u16,
}

/// The instruction before this one is the precompile over exactly these two signatures. In an inner call the sysvar's index
/// would name another program's data, so this is the transaction's own instruction.
#[inline(never)]
pub fn require_verified(sysvar: Account, signed: [Signed; 2]) -> Outcome {
    require(unsafe { sol_get_stack_height() } == TOP_LEVEL, NOT_TOP_LEVEL)?;
    sysvar.require_key(Word::of(&INSTRUCTIONS))?;
    let length = sysvar.length();
    require(length >= 4, SIGNATURES_NOT_VERIFIED)?;
    let all = sysvar.data() as *const u8;
    let own = unsafe { (all.add(length - 2) as *const u16).read_unaligned() };
    require(own > 0, SIGNATURES_NOT_VERIFIED)?;
    let place = unsafe { (all.add(2 * own as usize) as *const u16).read_unaligned() } as usize;
    require(place < length, SIGNATURES_NOT_VERIFIED)?;

    let mut before = Reader::new(unsafe { all.add(place) }, length - place);
    require(before.u16()? == 0, SIGNATURES_NOT_VERIFIED)?;
    require(before.word()?.equals(Word::of(&SECP256R1)), SIGNATURES_NOT_VERIFIED)?;
    require(before.u16()? as usize == DATA_BYTES, SIGNATURES_NOT_VERIFIED)?;
    let expected = offsets(signed, own);
    let same = compare(before.take(DATA_BYTES)?, expected.as_ptr(), DATA_BYTES) == Ordering::Equal;
    require(same, SIGNATURES_NOT_VERIFIED)
}

/// Count u8, a zero, then for each: signature offset and instruction, key offset and instruction, message offset, length and
/// instruction, all u16.
fn offsets(signed: [Signed; 2], own: u16) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data[0] = 2;
    let mut at = 2;
    for one in signed {
        for number in [one.signature, own, one.key, own, one.message, one.length, own] {
            let [low, high] = number.to_le_bytes();
            if at + 1 < DATA_BYTES {
                data[at] = low;
                data[at + 1] = high;
            }
            at += 2;
        }
    }
    data
}
