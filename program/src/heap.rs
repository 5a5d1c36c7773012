//! Owns the use of the program's heap: three fixed buffers, no allocator.

const HEAP: u64 = 0x3_0000_0000;

/// Leaves of one append, 32 bytes each; hashed in place level by level.
pub const LEAVES_MAX: usize = 112;

/// Data of one event; the runtime bounds the data of an inner instruction by this.
pub const EVENT_BYTES_MAX: usize = 10_240;

pub fn leaves() -> *mut u8 {
    HEAP as *mut u8
}

pub fn event() -> *mut u8 {
    (HEAP + 4_096) as *mut u8
}

const _: () = assert!(LEAVES_MAX * 32 <= 4_096 && 4_096 + EVENT_BYTES_MAX <= 32_768);
