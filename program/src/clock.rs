//! Reads the chain's clock and rent parameters.
use crate::error::{Fault, OVERFLOW, UNSUPPORTED_SYSVAR};
use crate::syscalls::{sol_get_clock_sysvar, sol_get_rent_sysvar};

pub struct Now {
    pub slot: u64,
    /// Unix seconds by the cluster's clock.
    pub unix_s: u64,
}

pub fn now() -> Result<Now, Fault> {
    let mut clock = [0u64; 5];
    let status = unsafe { sol_get_clock_sysvar(clock.as_mut_ptr() as *mut u8) };
    let [slot, _, _, _, unix_s] = clock;
    if status != 0 || unix_s > i64::MAX as u64 {
        return Err(UNSUPPORTED_SYSVAR);
    }
    Ok(Now { slot, unix_s })
}

/// Bytes that every account is charged for in addition to its data.
const ACCOUNT_OVERHEAD: u64 = 128;
/// The runtime's limit.
const ACCOUNT_BYTES_MAX: u64 = 10 * 1_048_576;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const TWO: u64 = 0x4000_0000_0000_0000;

/// Lamports that make an account of `size` bytes rent-exempt. The threshold is a floating-point number that is 2, or
/// 1 where the price per byte already includes it; any other form is refused.
pub fn rent_exempt_minimum(size: u64) -> Result<u64, Fault> {
    let mut rent = [0u64; 3];
    let status = unsafe { sol_get_rent_sysvar(rent.as_mut_ptr() as *mut u8) };
    let [per_byte, threshold, _] = rent;
    if status != 0 || per_byte > u32::MAX as u64 || size > ACCOUNT_BYTES_MAX {
        return Err(UNSUPPORTED_SYSVAR);
    }
    let single = (ACCOUNT_OVERHEAD + size) * per_byte;
    match threshold {
        ONE => Ok(single),
        TWO => single.checked_add(single).ok_or(OVERFLOW),
        _ => Err(UNSUPPORTED_SYSVAR),
    }
}
