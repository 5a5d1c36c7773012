//! Checks and accesses the accounts this program keeps: each is one `repr(C)` struct, read and written by field name.
use super::Account;
use crate::bytes::Word;
use crate::create::{require_derived, Seeds};
use crate::error::{require, Fault, Outcome, WRONG_ACCOUNT};
use core::mem::size_of;

/// Address of a field.
macro_rules! field {
    ($record:expr, $($path:tt)+) => { unsafe { core::ptr::addr_of_mut!((*$record.at()).$($path)+) } };
}

/// Value of an integer field.
macro_rules! get {
    ($record:expr, $($path:tt)+) => {{
        let at = field!($record, $($path)+);
        unsafe { at.read_volatile() }
    }};
}

macro_rules! set {
    ($record:expr, $field:ident, $value:expr) => {{
        let (at, value) = (field!($record, $field), $value);
        unsafe { at.write_volatile(value) }
    }};
}

/// A 32-byte field as a `Word`.
macro_rules! word {
    ($record:expr, $($path:tt)+) => { $crate::bytes::Word::at(field!($record, $($path)+) as *const u8) };
}

/// Copies a `Word` into a 32-byte field.
macro_rules! set_word {
    ($record:expr, $field:ident, $value:expr) => {
        $value.copy_to(field!($record, $field) as *mut u8)
    };
}

const VERSION: u8 = 2;

/// The first three bytes of every record.
#[repr(C)]
pub struct Head {
    pub kind: u8,
    pub version: u8,
    pub bump: u8,
}

/// The data of an account kind: begins with its `Head`, has no implicit padding, aligned to at most 8 bytes.
pub trait Layout: Sized {
    const KIND: u8;
}

/// Address of account data of layout `L`. Account data changes under calls to other programs, so fields are read and
/// written one by one through `get!`, `set!` and `word!`, never through a reference.
pub struct Record<L>(*mut L);

impl<L> Clone for Record<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Record<L> {}

impl<L: Layout> Record<L> {
    /// Checks owner, size, kind and version. Only `create` gives an address of ours to this program and only `begin` writes a
    /// kind, so an account that passes was made by this program for that kind.
    pub fn of(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == size_of::<L>(), WRONG_ACCOUNT)?;
        let record = Record(account.data() as *mut L);
        let head = record.head();
        require(get!(head, kind) == L::KIND && get!(head, version) == VERSION, WRONG_ACCOUNT)?;
        Ok(record)
    }

    /// The record at an address that `initialize` stored in config when it created the account.
    pub fn known(account: Account, address: Word) -> Result<Self, Fault> {
        account.require_key(address)?;
        Ok(Record(account.data() as *mut L))
    }

    /// Checks also that the address is the one derived from `seeds`.
    pub fn require_derived(self, account: Account, seeds: &Seeds, program: Word) -> Outcome {
        require_derived(account, seeds, get!(self.head(), bump), program)
    }

    /// Takes over a freshly created account, which is zeros.
    pub fn begin(account: Account, bump: u8) -> Self {
        let record = Record(account.data() as *mut L);
        let head = record.head();
        set!(head, kind, L::KIND);
        set!(head, version, VERSION);
        set!(head, bump, bump);
        record
    }

    fn head(self) -> Record<Head> {
        Record(self.0 as *mut Head)
    }
}

impl<L> Record<L> {
    /// A layout inside account data; the caller has checked the account.
    #[inline(always)]
    pub fn at_address(at: *mut L) -> Self {
        Record(at)
    }

    #[inline(always)]
    pub fn at(self) -> *mut L {
        self.0
    }
}
