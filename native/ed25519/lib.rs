//! Verifies Ed25519 signatures without cofactor, R compared bytewise, keeping tables of keys in the caller's memory.
//! The caller has checked the strict rule before: a canonical key, neither key nor R of small order.
//!
//! A signature (R, s) by key A of a message with hash k verifies if R = sB - kA, which dalek computes by 256 doublings. Here
//! k and s are cut into parts of 32 digits, with tables of A, 2^32 A, ... 2^224 A for k and of B for s, so 32 doublings
//! give the same point, also for a key with a part of small order: the parts of k add up to k as integers. Each signature is
//! judged by its own point; several are only encoded together, because one inversion serves them all.

#![no_std]
#![deny(warnings)]

#[cfg(not(target_feature = "avx512ifma"))]
use curve25519_dalek::backend::vector::avx2 as vector;
#[cfg(target_feature = "avx512ifma")]
use curve25519_dalek::backend::vector::ifma as vector;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::slice;
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT as BASE;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use curve25519_dalek::window::NafLookupTable8;
use sha2::{Digest, Sha512};
use vector::edwards::{CachedPoint, ExtendedPoint};

/// The first two bytes of a key name the set that keeps it, in the place of the key that was used least lately.
const SETS: usize = 1_024;
/// Keys that a set keeps.
const WAYS: usize = 8;
/// Of a scalar's 256 digits.
const PARTS: usize = 8;
const DIGITS: usize = 256 / PARTS;
/// Points that are encoded together.
const TOGETHER: usize = 16;
/// Of memory, and of a line of the processor's cache.
const ALIGNMENT: usize = 64;

/// Odd multiples of a point and of what `DIGITS` doublings make of it, for each part.
type Tables<T> = [T; PARTS];
type KeyTables = Tables<KeyTable>;
type BaseTables = Tables<NafLookupTable8<CachedPoint>>;

/// 1, 3, 5 and 7 times a point, for digits of a non-adjacent form of width 4. dalek's smallest table has twice as many.
struct KeyTable([CachedPoint; 4]);

impl From<&EdwardsPoint> for KeyTable {
    fn from(point: &EdwardsPoint) -> KeyTable {
        let once = ExtendedPoint::from(*point);
        let twice = once.double();
        let mut odd = [CachedPoint::from(once); 4];
        for at in 1..odd.len() {
            odd[at] = (&twice + &odd[at - 1]).into();
        }
        KeyTable(odd)
    }
}

struct Set {
    keys: [[u8; 32]; WAYS],
    /// The number of the signature that used each last; 0 where no key is kept.
    used: [u64; WAYS],
    tables: [KeyTables; WAYS],
}

struct Memory {
    base: BaseTables,
    /// Signatures so far.
    count: u64,
    sets: [Set; SETS],
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
    let (s, k) = (s.non_adjacent_form(8), k.non_adjacent_form(4));
    let mut sum = ExtendedPoint::identity();
    for at in (0..DIGITS).rev() {
        sum = sum.double();
        for part in 0..PARTS {
            add(&mut sum, k[part * DIGITS + at], |digit| key[part].0[digit / 2]);
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

struct Signed<'a> {
    key: &'a [u8; 32],
    r: &'a [u8; 32],
    s: &'a [u8; 32],
    message: &'a [u8],
}

/// Takes the next of the signatures, as `ed25519_verify` describes them.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<Signed<'a>> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (r, rest) = rest.split_first_chunk()?;
    let (s, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(Signed { key, r, s, message })
}

/// Verifies `count` signatures, and sets the verdict of each: 1 when it verifies, else 0. Only a key whose signature verified
/// is kept, so invalid signatures evict nothing.
///
/// # Safety
/// `ed25519_open` got `memory`, and no other thread uses it; `signatures` is readable for `length` bytes: for each signature
/// the 32 bytes of its key, its 64 bytes, the length of its message as a little-endian u32, and the message. `verdicts` is
/// writable for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ed25519_verify(
    memory: *mut u8,
    signatures: *const u8,
    length: usize,
    verdicts: *mut u8,
    count: usize,
) {
    let mut signatures = unsafe { slice::from_raw_parts(signatures, length) };
    let (memory, verdicts) = unsafe { (aligned(memory), slice::from_raw_parts_mut(verdicts, count)) };
    for verdicts in verdicts.chunks_mut(TOGETHER) {
        verify_some(memory, &mut signatures, verdicts);
    }
}

fn verify_some(memory: &mut Memory, signatures: &mut &[u8], verdicts: &mut [u8]) {
    // By keys that are kept: the point of each, the verdict it decides, and the R it is compared with.
    let mut points = [EdwardsPoint::identity(); TOGETHER];
    let mut waiting: [Option<(&mut u8, &[u8; 32])>; TOGETHER] = [const { None }; TOGETHER];
    let mut count = 0;
    for verdict in verdicts {
        *verdict = 0;
        let Some(signed) = next(signatures) else { continue };
        let kept = find(memory, signed.key);
        let Some((s, k)) = scalars_of(&signed) else { continue };
        let Some(way) = kept else {
            *verdict = verify_first(memory, &signed, &s, &k).is_some() as u8;
            continue;
        };
        let tables = &memory.sets[set_of(signed.key)].tables[way];
        points[count] = commitment(&s, &k, tables, &memory.base);
        waiting[count] = Some((verdict, signed.r));
        count += 1;
    }
    match count {
        0 => {}
        1 => decide::<1>(&points, &mut waiting),
        2..=4 => decide::<4>(&points, &mut waiting),
        5..=8 => decide::<8>(&points, &mut waiting),
        _ => decide::<TOGETHER>(&points, &mut waiting),
    }
}

/// Encodes the first `N` points, with one inversion.
fn decide<const N: usize>(points: &[EdwardsPoint], waiting: &mut [Option<(&mut u8, &[u8; 32])>]) {
    let Some(points) = points.first_chunk::<N>() else { return };
    for (encoded, waiting) in EdwardsPoint::compress_batch(points).iter().zip(waiting) {
        if let Some((verdict, r)) = waiting {
            **verdict = (encoded.0 == **r) as u8;
        }
    }
}

/// The way of a key that is kept, which is the one used last from now on.
fn find(memory: &mut Memory, key: &[u8; 32]) -> Option<usize> {
    memory.count += 1;
    let set = &mut memory.sets[set_of(key)];
    let way = (0..WAYS).find(|&way| set.used[way] != 0 && set.keys[way] == *key)?;
    set.used[way] = memory.count;
    // Loaded while the message is hashed.
    prefetch(&set.tables[way]);
    Some(way)
}

/// s and k of a signature; `None` for an s that is not canonical.
fn scalars_of(signed: &Signed) -> Option<(Scalar, Scalar)> {
    let s = Option::from(Scalar::from_canonical_bytes(*signed.s))?;
    let hash = Sha512::new().chain_update(signed.r).chain_update(signed.key).chain_update(signed.message);
    Some((s, Scalar::from_bytes_mod_order_wide(&hash.finalize().into())))
}

/// By a key that is not kept, and is from now on if the signature verifies.
fn verify_first(memory: &mut Memory, signed: &Signed, s: &Scalar, k: &Scalar) -> Option<()> {
    let tables = tables_of(-CompressedEdwardsY(*signed.key).decompress()?);
    if commitment(s, k, &tables, &memory.base).compress().0 != *signed.r {
        return None;
    }
    let set = &mut memory.sets[set_of(signed.key)];
    let way = (0..WAYS).min_by_key(|&way| set.used[way])?;
    (set.keys[way], set.used[way], set.tables[way]) = (*signed.key, memory.count, tables);
    Some(())
}

fn set_of(key: &[u8; 32]) -> usize {
    u16::from_le_bytes([key[0], key[1]]) as usize % SETS
}

fn prefetch(tables: &KeyTables) {
    let lines = (tables as *const KeyTables).cast::<[i8; ALIGNMENT]>();
    for line in 0..size_of::<KeyTables>() / ALIGNMENT {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(lines.add(line).cast()) };
    }
}
