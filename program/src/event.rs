//! Writes and emits events: instructions the program sends to itself, signed by the config account.
use crate::bytes::{copy, Word};
use crate::config::{Config, SEED};
use crate::cpi::{invoke, Outgoing, Use};
use crate::error::{require, Outcome, INVALID_DATA};
use crate::heap;

pub const EMIT: u8 = 255;

pub const DEPOSITED: u8 = 1;
pub const SETTLED: u8 = 2;
pub const EPOCH_OPENED: u8 = 3;
pub const EXIT_REQUESTED: u8 = 4;
pub const EXIT_REFUSED: u8 = 5;
pub const FROZEN: u8 = 6;
pub const PAID: u8 = 7;
pub const EXIT_CLOSED: u8 = 8;
pub const ESCAPE_CLAIMED: u8 = 9;
pub const ESCAPE_CHALLENGED: u8 = 10;
pub const ESCAPE_PAID: u8 = 11;
pub const ESCAPE_REDIRECTED: u8 = 12;
pub const ANNOUNCED: u8 = 13;
pub const PLATFORM_REGISTERED: u8 = 14;
pub const EPOCH_ATTESTED: u8 = 15;

/// Writes one event into its buffer, front to back. Only one is ever under construction.
pub struct Event {
    length: usize,
    overrun: bool,
}

impl Event {
    pub fn begin(kind: u8) -> Self {
        let mut event = Event { length: 0, overrun: false };
        event.u8(EMIT);
        event.u8(kind);
        event
    }

    /// Continues at a place further back, for parts that are known before the front is.
    pub fn at(offset: usize) -> Self {
        Event { length: offset, overrun: false }
    }

    /// Steps over bytes that were written before.
    pub fn skip(&mut self, length: usize) {
        let _ = self.grow(length);
    }

    fn grow(&mut self, width: usize) -> Option<*mut u8> {
        if self.length + width > heap::EVENT_BYTES_MAX {
            self.overrun = true;
            return None;
        }
        let at = unsafe { heap::event().add(self.length) };
        self.length += width;
        Some(at)
    }

    #[inline(never)]
    pub fn u8(&mut self, value: u8) {
        if let Some(at) = self.grow(1) {
            unsafe { at.write(value) }
        }
    }

    pub fn u16(&mut self, value: u16) {
        let [low, high] = value.to_le_bytes();
        self.u8(low);
        self.u8(high);
    }

    #[inline(never)]
    pub fn u64(&mut self, value: u64) {
        if let Some(at) = self.grow(8) {
            unsafe { (at as *mut u64).write_unaligned(value) }
        }
    }

    pub fn word(&mut self, value: Word) {
        self.bytes(value.as_ptr(), 32)
    }

    #[inline(never)]
    pub fn bytes(&mut self, from: *const u8, length: usize) {
        if let Some(at) = self.grow(length) {
            copy(at, from, length)
        }
    }

    pub fn emit(&self, config: &Config, program: Word) -> Outcome {
        require(!self.overrun, INVALID_DATA)?;
        let bump = [config.bump()];
        let data = unsafe { core::slice::from_raw_parts(heap::event(), self.length) };
        let uses = [Use::read(config.account).signed()];
        invoke(uses, &Outgoing { program, data, seeds: &[SEED, &bump] })
    }
}
