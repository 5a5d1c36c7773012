//! Verifies Ed25519 signatures without cofactor, R compared bytewise, keeping tables of keys in the caller's memory.
//! The caller has checked the strict rule before: a canonical key, neither key nor R of small order.
//!
//! A signature (R, s) by key A of a message with hash k verifies if R = sB - kA, which dalek computes by 256 doublings. Here
//! k and s are cut into parts of 64 digits, with tables of A, 2^64 A, 2^128 A and 2^192 A for k and of B for s, so 64 doublings
//! give the same point, also for a key with a part of small order: the parts of k add up to k as integers.

#![no_std]
#![deny(warnings)]

#[cfg(not(target_feature = "avx512ifma"))]
use curve25519_dalek::backend::vector::avx2 as vector;
#[cfg(target_feature = "avx512ifma")]
use curve25519_dalek::backend::vector::ifma as vector;

use core::slice;
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT as BASE;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use curve25519_dalek::window::{NafLookupTable5, NafLookupTable8};
use sha2::{Digest, Sha512};
use vector::edwards::{CachedPoint, ExtendedPoint};

/// Keys kept: the first two bytes of a key name its slot, and the newest key has it.
const SLOTS: usize = 4_096;
/// Of a scalar's 256 digits.
const PARTS: usize = 4;
const DIGITS: usize = 256 / PARTS;
const ALIGNMENT: usize = 64;

/// Odd multiples of a point and of what `DIGITS` doublings make of it, for each part.
type Tables<T> = [T; PARTS];
type KeyTables = Tables<NafLookupTable5<CachedPoint>>;
type BaseTables = Tables<NafLookupTable8<CachedPoint>>;

struct Slot {
    is_kept: bool,
    key: [u8; 32],
    tables: KeyTables,
}

struct Memory {
    base: BaseTables,
    slots: [Slot; SLOTS],
}

/// Ends the process: a bound that is checked and never crossed was crossed.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

fn tables_of<T: for<'a> From<&'a EdwardsPoint>>(mut point: EdwardsPoint) -> Tables<T> {
    core::array::from_fn(|_| {
        let table = T::from(&point);
        point = ExtendedPoint::from(point).mul_by_pow_2(DIGITS as u32).into();
        table
    })
}

/// Adds a multiple: `odd` gives those of odd digits.
#[inline(always)]
fn add(sum: &mut ExtendedPoint, digit: i8, odd: impl Fn(usize) -> CachedPoint) {
    match digit {
        1.. => *sum = &*sum + &odd(digit as usize),
        0 => {}
        _ => *sum = &*sum - &odd(-digit as usize),
    }
}

/// sB - kA in variable time; `key` is of -A.
fn commitment(s: &Scalar, k: &Scalar, key: &KeyTables, base: &BaseTables) -> EdwardsPoint {
    let (s, k) = (s.non_adjacent_form(8), k.non_adjacent_form(5));
    let mut sum = ExtendedPoint::identity();
    for at in (0..DIGITS).rev() {
        sum = sum.double();
        for part in 0..PARTS {
            add(&mut sum, k[part * DIGITS + at], |digit| key[part].select(digit));
            add(&mut sum, s[part * DIGITS + at], |digit| base[part].select(digit));
        }
    }
    sum.into()
}

/// `memory` as `Memory`, which is aligned within it.
unsafe fn aligned<'a>(memory: *mut u8) -> &'a mut Memory {
    unsafe { &mut *memory.add(memory.align_offset(ALIGNMENT)).cast() }
}

/// Bytes of the memory that the other functions take.
#[unsafe(no_mangle)]
pub extern "C" fn ed25519_memory_bytes() -> u32 {
    (size_of::<Memory>() + ALIGNMENT) as u32
}

/// # Safety
/// `memory` is writable for `ed25519_memory_bytes()` and all zeros, and keeps its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ed25519_open(memory: *mut u8) {
    unsafe { aligned(memory) }.base = tables_of(BASE);
}

/// Returns 1 when `signature` of `message` by `key` verifies, else 0. Only a key whose signature verified is kept, so
/// invalid signatures evict nothing.
///
/// # Safety
/// `ed25519_open` got `memory`, and no other thread uses it; `message` is readable for `length` bytes, or of any value
/// where `length` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ed25519_verify(
    memory: *mut u8,
    key: &[u8; 32],
    signature: &[u8; 64],
    message: *const u8,
    length: usize,
) -> u32 {
    let message = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(message, length) } };
    let memory = unsafe { aligned(memory) };
    verifies(memory, key, signature, message).is_some() as u32
}

fn verifies(memory: &mut Memory, key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Option<()> {
    let (r, s) = signature.split_first_chunk::<32>()?;
    let s = Option::from(Scalar::from_canonical_bytes(s.try_into().ok()?))?;
    let hash = Sha512::new().chain_update(r).chain_update(key).chain_update(message).finalize();
    let k = Scalar::from_bytes_mod_order_wide(&hash.into());
    let slot = &mut memory.slots[u16::from_le_bytes([key[0], key[1]]) as usize % SLOTS];
    if slot.is_kept && slot.key == *key {
        return (commitment(&s, &k, &slot.tables, &memory.base).compress().0 == *r).then_some(());
    }
    let tables = tables_of(-CompressedEdwardsY(*key).decompress()?);
    if commitment(&s, &k, &tables, &memory.base).compress().0 != *r {
        return None;
    }
    *slot = Slot { is_kept: true, key: *key, tables };
    Some(())
}
