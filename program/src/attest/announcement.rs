//! Reads and writes the admin's announcements for attested epochs: members of lists, minima and single values, one record each.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{compare, copy, is_blank, Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;
use core::cmp::Ordering;

/// Bytes of a value, zeros behind its width.
pub const VALUE_BYTES: usize = 40;

#[repr(C)]
pub struct AnnouncementData {
    head: Head,
    list: u8,
    _zero: [u8; 4],
    id: Bytes32,
    /// Second from which the value holds, 0 for none.
    since_s: u64,
    value: [u8; VALUE_BYTES],
    /// Second from which the next value holds, 0 for none.
    next_at_s: u64,
    next: [u8; VALUE_BYTES],
}

pub const ANNOUNCEMENT_BYTES: usize = core::mem::size_of::<AnnouncementData>();
const _: () = assert!(ANNOUNCEMENT_BYTES == 136);

impl Layout for AnnouncementData {
    const KIND: u8 = 9;
}

pub const BUILD: u8 = 1;
pub const IMAGE: u8 = 2;
pub const PLATFORM: u8 = 3;
pub const FMSPC_MINIMUM: u8 = 4;
pub const TEE_TCB_MINIMUM: u8 = 5;
pub const QE_MINIMUM: u8 = 6;
pub const ATTESTATION_ROOT: u8 = 7;
pub const EPOCH_AUTHORITY: u8 = 8;
pub const APP_ID: u8 = 9;
pub const KEY_PROVIDER: u8 = 10;

/// The announced entry: the list's number and the entry's id, zeros for a single value.
#[derive(Clone, Copy)]
pub struct Topic {
    pub list: u8,
    pub id: Word,
}

/// The topic of a list that has one value.
pub fn single(list: u8) -> Topic {
    Topic { list, id: Word::zero() }
}

const NAME_BYTES: usize = 10;

impl Topic {
    /// Lists differ in the last byte of their name, so no two share an address.
    pub fn name(self) -> [u8; NAME_BYTES] {
        let mut name = *b"announced\x01";
        name[NAME_BYTES - 1] = self.list;
        name
    }

    /// Bytes of the id and of the value that may differ from zero.
    fn widths(self) -> Result<(usize, usize), Fault> {
        match self.list {
            BUILD | IMAGE => Ok((32, 0)),
            PLATFORM => Ok((16, 0)),
            FMSPC_MINIMUM => Ok((6, 18)),
            TEE_TCB_MINIMUM | QE_MINIMUM => Ok((0, 18)),
            ATTESTATION_ROOT => Ok((0, 33)),
            EPOCH_AUTHORITY | KEY_PROVIDER => Ok((0, 32)),
            APP_ID => Ok((0, 20)),
            _ => Err(INVALID_DATA),
        }
    }

    fn is_minimum(self) -> bool {
        self.list >= FMSPC_MINIMUM && self.list <= QE_MINIMUM
    }

    pub fn require_form(self) -> Outcome {
        let (id, _) = self.widths()?;
        require_width(self.id.as_ptr(), id, 32)?;
        require((id == 0) == self.id.is_zero(), INVALID_DATA)
    }

    /// A list's members have no value, every other value is announced whole; a compressed key begins with its parity.
    pub fn require_value(self, value: *const u8) -> Outcome {
        let (_, width) = self.widths()?;
        require_width(value, width, VALUE_BYTES)?;
        let parity = unsafe { *value };
        require(width != 33 || parity == 2 || parity == 3, INVALID_DATA)?;
        let blank = is_blank(value, VALUE_BYTES);
        require(!blank || width == 0 || self.is_minimum(), INVALID_DATA)
    }

    /// A raised minimum admits nothing that the old one refuses. Component 1 of a TEE TCB is the module's major version, which
    /// must be equal and so cannot be raised.
    pub fn require_raised(self, old: *const u8, new: *const u8) -> Outcome {
        require(self.is_minimum(), INVALID_DATA)?;
        let major = unsafe { (*old.add(1), *new.add(1)) };
        require(self.list != TEE_TCB_MINIMUM || major.0 == major.1, NOT_RAISED)?;
        require(reaches(new, old), NOT_RAISED)
    }
}

/// Sixteen components and the u16 behind them are each at least the minimum's.
pub fn reaches(value: *const u8, minimum: *const u8) -> bool {
    let mut at = 0;
    while at < 16 {
        if unsafe { *value.add(at) < *minimum.add(at) } {
            return false;
        }
        at += 1;
    }
    let last = |from: *const u8| unsafe { (from.add(16) as *const u16).read_unaligned() };
    last(value) >= last(minimum)
}

fn require_width(at: *const u8, width: usize, size: usize) -> Outcome {
    require(is_blank(unsafe { at.add(width) }, size - width), INVALID_DATA)
}

/// Which entry of a list an opening needs, and the error where its record is another's.
pub struct Entry {
    pub list: u8,
    pub id: *const u8,
    pub width: usize,
    pub other: Fault,
}

/// This program, and the second of its clock.
pub struct Moment {
    pub program: Word,
    pub now_s: u64,
}

#[derive(Clone, Copy)]
pub struct Announcement(Record<AnnouncementData>);

impl Announcement {
    pub fn load(account: Account, topic: Topic, program: Word) -> Result<Self, Fault> {
        let record = Record::<AnnouncementData>::of(account, program)?;
        let id = topic.id.load();
        record.require_derived(account, &Seeds(&[&topic.name(), &id.0]), program)?;
        Ok(Announcement(record))
    }

    /// The value that holds now of a list that has one.
    pub fn current(account: Account, list: u8, at: &Moment) -> Result<*const u8, Fault> {
        Announcement::load(account, single(list), at.program)?.holding(at.now_s).ok_or(NOT_ANNOUNCED)
    }

    /// The value that holds now of an entry, or `other` where the record is that of another entry.
    pub fn entry(account: Account, entry: &Entry, at: &Moment) -> Result<*const u8, Fault> {
        let record = Record::<AnnouncementData>::of(account, at.program)?;
        let id = word!(record, id);
        let announced = Announcement::load(account, Topic { list: entry.list, id }, at.program)?;
        let zeros = is_blank(unsafe { id.as_ptr().add(entry.width) }, 32 - entry.width);
        let same = compare(id.as_ptr(), entry.id, entry.width) == Ordering::Equal;
        require(same && zeros, entry.other)?;
        announced.holding(at.now_s).ok_or(NOT_ANNOUNCED)
    }

    pub fn begin(account: Account, topic: Topic, bump: u8) -> Self {
        let record = Record::<AnnouncementData>::begin(account, bump);
        set!(record, list, topic.list);
        set_word!(record, id, topic.id);
        Announcement(record)
    }

    /// The value that holds, if any does.
    pub fn value(self) -> Option<*const u8> {
        if get!(self.0, since_s) == 0 {
            return None;
        }
        Some(field!(self.0, value) as *const u8)
    }

    /// The value that holds at a time, also where the record does not show it yet.
    pub fn holding(self, now_s: u64) -> Option<*const u8> {
        let next_at_s = get!(self.0, next_at_s);
        if next_at_s != 0 && now_s >= next_at_s {
            return Some(field!(self.0, next) as *const u8);
        }
        self.value()
    }

    pub fn has_next(self) -> bool {
        get!(self.0, next_at_s) != 0
    }

    /// The next value takes the place of the old one once its time has come.
    pub fn bring_forward(self, now_s: u64) {
        let at_s = get!(self.0, next_at_s);
        if at_s != 0 && now_s >= at_s {
            self.set_value(field!(self.0, next) as *const u8, at_s);
            self.set_next(core::ptr::null(), 0);
        }
    }

    pub fn set_value(self, value: *const u8, since_s: u64) {
        put(field!(self.0, value) as *mut u8, value);
        set!(self.0, since_s, since_s);
    }

    pub fn set_next(self, value: *const u8, at_s: u64) {
        put(field!(self.0, next) as *mut u8, value);
        set!(self.0, next_at_s, at_s);
    }
}

/// Null means zeros.
fn put(to: *mut u8, value: *const u8) {
    if value.is_null() {
        crate::bytes::clear(to, VALUE_BYTES);
    } else {
        copy(to, value, VALUE_BYTES);
    }
}
