//! The record of a machine's certificate: the key that signs its quoting enclave's reports, and the versions it speaks for.
use super::announcement::reaches;
use super::certificate::Certificate;
use super::sgx_extension::SgxExtension;
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{compare, copy, Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;
use core::cmp::Ordering;

pub const SEED: &[u8] = b"platform";

#[repr(C)]
pub struct PlatformData {
    head: Head,
    /// First byte of the compressed key.
    parity: u8,
    root_parity: u8,
    _zero: u8,
    pce_svn: u16,
    /// The PCK key's x.
    key: Bytes32,
    /// The root's x: a platform is worth nothing under another root.
    root: Bytes32,
    pub ppid: [u8; 16],
    pub components: [u8; 16],
    pub fmspc: [u8; 6],
    _reserved: [u8; 2],
}

pub const PLATFORM_BYTES: usize = core::mem::size_of::<PlatformData>();
const _: () = assert!(PLATFORM_BYTES == 112);

impl Layout for PlatformData {
    const KIND: u8 = 10;
}

/// Fills a new record. `root`: compressed key.
pub fn begin(account: Account, bump: u8, leaf: &Certificate, sgx: &SgxExtension, root: *const u8) {
    let record = Record::<PlatformData>::begin(account, bump);
    set!(record, parity, leaf.parity());
    set!(record, root_parity, unsafe { *root });
    set!(record, pce_svn, sgx.pce_svn);
    copy(field!(record, key) as *mut u8, leaf.point, 32);
    copy(field!(record, root) as *mut u8, unsafe { root.add(1) }, 32);
    copy(field!(record, ppid) as *mut u8, sgx.ppid, 16);
    copy(field!(record, components) as *mut u8, sgx.components.as_ptr(), 16);
    copy(field!(record, fmspc) as *mut u8, sgx.fmspc, 6);
}

#[derive(Clone, Copy)]
pub struct Platform(Record<PlatformData>);

impl Platform {
    /// The record of a certificate under the root that holds now. Both keys are compressed.
    pub fn load(account: Account, key: *const u8, root: *const u8, program: Word) -> Result<Self, Fault> {
        let record = Record::<PlatformData>::of(account, program)?;
        let x = word!(record, key).load();
        record.require_derived(account, &Seeds(&[SEED, &x.0]), program)?;
        require(is_key(key, get!(record, parity), word!(record, key)), WRONG_PLATFORM)?;
        require(is_key(root, get!(record, root_parity), word!(record, root)), WRONG_ROOT)?;
        Ok(Platform(record))
    }

    /// 16 bytes.
    pub fn ppid(self) -> *const u8 {
        field!(self.0, ppid) as *const u8
    }

    /// 6 bytes.
    pub fn fmspc(self) -> *const u8 {
        field!(self.0, fmspc) as *const u8
    }

    /// `minimum`: of this platform's FMSPC; those of another say nothing.
    pub fn require_versions(self, minimum: *const u8) -> Outcome {
        let mut value = [0u8; 18];
        copy(value.as_mut_ptr(), field!(self.0, components) as *const u8, 16);
        copy(unsafe { value.as_mut_ptr().add(16) }, field!(self.0, pce_svn) as *const u8, 2);
        require(reaches(value.as_ptr(), minimum), PLATFORM_BELOW_MINIMUM)
    }
}

fn is_key(compressed: *const u8, parity: u8, x: Word) -> bool {
    unsafe { *compressed == parity && compare(compressed.add(1), x.as_ptr(), 32) == Ordering::Equal }
}
