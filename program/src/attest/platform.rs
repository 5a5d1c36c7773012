//! The record of a machine's certificate: the key that signs its quoting enclave's reports, and the versions it speaks for.
use super::certificate::Certificate;
use super::sgx_extension::SgxExtension;
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{copy, Bytes32};

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
