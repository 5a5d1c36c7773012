//! Keeps the payout queue: entries that `settle` adds and `pay` closes, each at a fixed cost.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::clock::Now;
use crate::config::Config;
use crate::error::*;
use core::mem::size_of;

/// Entries that `initialize` and each `grow_queue` add: an account grows by at most 10,240 bytes per instruction.
pub const GROWTH: u32 = 60;
const CAPACITY_MAX: u32 = 17 * GROWTH;

pub const SEED: &[u8] = b"queue";

#[repr(C)]
pub struct QueueData {
    head: Head,
    _zeros: [u8; 5],
    /// Numbers are never reused; the first is 1.
    next_number: u64,
    open: u32,
    /// Place plus one of the entry freed last; 0 when none is free.
    free_head: u32,
    /// Places that were ever taken.
    used: u32,
    capacity: u32,
    _reserved: [u64; 16],
}

#[repr(C)]
pub struct Entry {
    pub number: u64,
    is_open: u8,
    pub kind: u8,
    _zeros: [u8; 2],
    /// Of a free entry: as `free_head`.
    next_free: u32,
    pub queued_at_s: u64,
    queued_slot: u64,
    pub mint: Bytes32,
    pub amount: u64,
    pub destination: Bytes32,
    pub inner: Bytes32,
    /// Of an exit; else zeros.
    pub nullifier: Bytes32,
}

const ENTRY_BYTES: usize = size_of::<Entry>();
pub const QUEUE_BYTES: usize = size_of::<QueueData>() + GROWTH as usize * ENTRY_BYTES;
const _: () = assert!(QUEUE_BYTES == 10_240 && ENTRY_BYTES == 168);

impl Layout for QueueData {
    const KIND: u8 = 7;
}

/// A payout as `settle` queues it; words that do not apply are zero.
pub struct NewEntry {
    pub kind: u8,
    pub mint: Word,
    pub amount: u64,
    pub destination: Word,
    pub inner: Word,
    pub nullifier: Word,
}

#[derive(Clone, Copy)]
pub struct Queue {
    record: Record<QueueData>,
    account: Account,
}

impl Queue {
    pub fn load_writable(account: Account, config: Config) -> Result<Self, Fault> {
        account.require_writable()?;
        Ok(Queue { record: Record::known(account, word!(config.record, queue))?, account })
    }

    pub fn begin(account: Account, bump: u8) {
        let record = Record::<QueueData>::begin(account, bump);
        set!(record, next_number, 1);
        set!(record, capacity, GROWTH);
    }

    /// Bytes of the account after `grow`; an error when it cannot grow further.
    pub fn grown_bytes(self) -> Result<usize, Fault> {
        require(get!(self.record, capacity) < CAPACITY_MAX, QUEUE_CANNOT_GROW)?;
        Ok(self.account.length() + GROWTH as usize * ENTRY_BYTES)
    }

    pub fn grow(self) -> Outcome {
        self.account.set_length(self.grown_bytes()?);
        set!(self.record, capacity, get!(self.record, capacity) + GROWTH);
        Ok(())
    }

    fn entry(self, place: u32) -> Record<Entry> {
        let entries = unsafe { self.record.at().add(1) } as *mut Entry;
        Record::at_address(unsafe { entries.add(place as usize) })
    }

    /// Stores an entry in the place freed last, else in the first one never taken; answers its place and number.
    pub fn push(self, new: &NewEntry, now: &Now) -> Result<(u32, u64), Fault> {
        let (free, used) = (get!(self.record, free_head), get!(self.record, used));
        let place = if free == 0 { used } else { free - 1 };
        let entry = self.entry(place);
        if free == 0 {
            require(used < get!(self.record, capacity), QUEUE_FULL)?;
            set!(self.record, used, used + 1);
        } else {
            set!(self.record, free_head, get!(entry, next_free));
        }
        let number = get!(self.record, next_number);
        set!(self.record, next_number, number.checked_add(1).ok_or(OVERFLOW)?);
        set!(self.record, open, get!(self.record, open) + 1);
        set!(entry, number, number);
        set!(entry, is_open, 1);
        set!(entry, kind, new.kind);
        set!(entry, next_free, 0);
        set!(entry, queued_at_s, now.unix_s);
        set!(entry, queued_slot, now.slot);
        set_word!(entry, mint, new.mint);
        set!(entry, amount, new.amount);
        set_word!(entry, destination, new.destination);
        set_word!(entry, inner, new.inner);
        set_word!(entry, nullifier, new.nullifier);
        Ok((place, number))
    }

    /// The entry at `place` while it is open under `number`.
    pub fn open_entry(self, place: u32, number: u64) -> Option<Record<Entry>> {
        let entry = self.entry(place);
        let open =
            place < get!(self.record, used) && get!(entry, is_open) == 1 && get!(entry, number) == number;
        open.then_some(entry)
    }

    /// Frees the place of an open entry, whose other fields stay until the place is taken again.
    pub fn close(self, place: u32) {
        let entry = self.entry(place);
        set!(entry, is_open, 0);
        set!(entry, next_free, get!(self.record, free_head));
        set!(self.record, free_head, place + 1);
        set!(self.record, open, get!(self.record, open) - 1);
    }
}
