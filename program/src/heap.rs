//! Places two fixed buffers on the program's heap, which has no allocator.
use crate::error::{require, Fault, INVALID_DATA};

const HEAP: u64 = 0x3_0000_0000;

/// Leaves of one append, 32 bytes each; hashed in place level by level.
const LEAVES_MAX: usize = 80;

/// Data of one event; the runtime bounds the data of an inner instruction by this.
pub const EVENT_BYTES_MAX: usize = 10_240;

pub fn leaves() -> *mut u8 {
    HEAP as *mut u8
}

/// Place of leaf `index` of the append.
pub fn leaf(index: usize) -> Result<*mut u8, Fault> {
    require(index < LEAVES_MAX, INVALID_DATA)?;
    Ok(unsafe { leaves().add(32 * index) })
}

pub fn event() -> *mut u8 {
    (HEAP + 4_096) as *mut u8
}

const _: () = assert!(LEAVES_MAX * 32 <= 4_096 && 4_096 + EVENT_BYTES_MAX <= 32_768);
