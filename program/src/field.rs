//! Checks that 32 big-endian bytes are usable elements of BN254's scalar field.
use crate::bytes::{Bytes32, Word};
use crate::error::{require, Outcome, NOT_ASCENDING, NOT_FIELD_ELEMENT};
use core::cmp::Ordering;

static MODULUS: Bytes32 = Bytes32([
    0x30, 0x64, 0x4e, 0x72, 0xe1, 0x31, 0xa0, 0x29, 0xb8, 0x50, 0x45, 0xb6, 0x81, 0x81, 0x58, 0x5d, 0x28,
    0x33, 0xe8, 0x48, 0x79, 0xb9, 0x70, 0x91, 0x43, 0xe1, 0xf5, 0x93, 0xf0, 0x00, 0x00, 0x01,
]);

/// Below the modulus and not zero.
#[inline(never)]
pub fn require_element(value: Word) -> Outcome {
    require(value.compare(Word::of(&MODULUS)) == Ordering::Less && !value.is_zero(), NOT_FIELD_ELEMENT)
}

/// Field elements, none of them zero, in strictly ascending order: position links nothing and nothing repeats. Each
/// is `stride` bytes behind the one before; only the largest is compared with the modulus.
pub fn require_ascending(first: *const u8, count: usize, stride: usize) -> Outcome {
    let mut last = Word::zero();
    let mut index = 0;
    while index < count {
        let next = Word::at(unsafe { first.add(index * stride) });
        require(next.compare(last) == Ordering::Greater, NOT_ASCENDING)?;
        last = next;
        index += 1;
    }
    require(last.compare(Word::of(&MODULUS)) == Ordering::Less, NOT_FIELD_ELEMENT)
}
