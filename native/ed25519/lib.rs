//! Verifies Ed25519 signatures without cofactor, R compared bytewise, keeping decompressed keys in the caller's memory.
//! The caller has checked the strict rule before: a canonical key, neither key nor R of small order.

#![no_std]

use core::slice;
use ed25519_dalek::{Signature, Verifier, VerifyingKey};

/// Keys kept: the first two bytes of a key name its slot, and the newest key has it.
const SLOTS: usize = 16_384;

/// Ends the process: a bound that dalek checks and never crosses was crossed.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// Bytes of the memory that `ed25519_open` fills.
#[unsafe(no_mangle)]
pub extern "C" fn ed25519_memory_bytes() -> u32 {
    (SLOTS * size_of::<VerifyingKey>()) as u32
}

/// Fills every slot with the identity: a slot always holds the point of its bytes.
///
/// # Safety
/// `memory` is writable for `ed25519_memory_bytes()`; it needs no alignment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ed25519_open(memory: *mut VerifyingKey) {
    for at in 0..SLOTS {
        unsafe { memory.add(at).write_unaligned(VerifyingKey::default()) };
    }
}

/// Returns 1 when `signature` of `message` by `key` verifies, else 0. Only a key whose signature verified is kept, so
/// invalid signatures evict nothing.
///
/// # Safety
/// `ed25519_open` filled `memory`, and no other thread uses it; `message` is readable for `length` bytes, or of any value
/// where `length` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ed25519_verify(
    memory: *mut VerifyingKey,
    key: &[u8; 32],
    signature: &[u8; 64],
    message: *const u8,
    length: usize,
) -> u32 {
    let slot = unsafe { memory.add(u16::from_le_bytes([key[0], key[1]]) as usize % SLOTS) };
    let kept = unsafe { slot.read_unaligned() };
    let kept = if kept.as_bytes() == key { Ok(kept) } else { VerifyingKey::from_bytes(key) };
    let Ok(key) = kept else { return 0 };
    let message = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(message, length) } };
    let holds = key.verify(message, &Signature::from_bytes(signature)).is_ok();
    if holds {
        unsafe { slot.write_unaligned(key) };
    }
    holds as u32
}
