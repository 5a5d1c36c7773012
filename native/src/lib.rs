//! The library's face: one call hashes a whole level of a tree, bytes in and out.

#![no_std]

mod constants;
mod field;
mod permutation;

use core::slice;
use permutation::Constants;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

fn hash_each<const T: usize, const ARITY: usize, const PARTIAL: usize>(
    constants: &Constants<T, ARITY, PARTIAL>,
    inputs: &[[u8; 32]],
    hashes: &mut [[u8; 32]],
) {
    let (groups, _) = inputs.as_chunks::<ARITY>();
    for (hash, group) in hashes.iter_mut().zip(groups) {
        *hash = constants.hash(group);
    }
}

/// Hashes `count` groups of `arity` inputs of 32 big-endian bytes each. Returns 0, or 1 for another arity than 1 to 5,
/// writing nothing.
///
/// # Safety
/// `inputs` is readable for `count * arity * 32` bytes, `hashes` writable for `count * 32`, and they do not overlap.
#[no_mangle]
pub unsafe extern "C" fn poseidon_hash(
    arity: usize,
    count: usize,
    inputs: *const [u8; 32],
    hashes: *mut [u8; 32],
) -> u32 {
    if !(1..=5).contains(&arity) {
        return 1;
    }
    let (inputs, hashes) =
        unsafe { (slice::from_raw_parts(inputs, count * arity), slice::from_raw_parts_mut(hashes, count)) };
    match arity {
        1 => hash_each(&constants::WIDTH_2, inputs, hashes),
        2 => hash_each(&constants::WIDTH_3, inputs, hashes),
        3 => hash_each(&constants::WIDTH_4, inputs, hashes),
        4 => hash_each(&constants::WIDTH_5, inputs, hashes),
        _ => hash_each(&constants::WIDTH_6, inputs, hashes),
    }
    0
}
