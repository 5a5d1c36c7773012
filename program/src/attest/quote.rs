//! Reads the signed part of a TDX quote (Intel TDX DCAP, versions 4 and 5) and the quoting enclave's report. Who signed them is the
//! precompile's to say.
use super::announcement::reaches;
use crate::bytes::{compare, is_blank, Bytes32, Word};
use crate::error::*;
use crate::hash::{sha256, Slice};
use core::cmp::Ordering;

const HEADER_BYTES: usize = 48;
/// Type u16 and size u32 before the body of version 5.
const DESCRIPTOR_BYTES: usize = 6;
const BODY_10_BYTES: usize = 584;
const BODY_15_BYTES: usize = 648;

const ECDSA_P256: u16 = 2;
const TEE_TDX: u32 = 0x81;
const INTEL: [u8; 16] =
    [0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07];

const MR_SIGNER_SEAM: usize = 64;
const SEAM_ATTRIBUTES: usize = 112;
const TD_ATTRIBUTES: usize = 120;
const XFAM: usize = 128;
const MR_TD: usize = 136;
const MR_CONFIG_ID: usize = 184;
const RTMR_0: usize = 328;
const RTMR_3: usize = 472;
const REPORT_DATA: usize = 520;
const TEE_TCB_SVN_2: usize = 584;
const MR_SERVICE_TD: usize = 600;
const REGISTER_BYTES: usize = 48;

/// SEPT_VE_DISABLE alone: no debugging, no migration, no performance monitoring.
const TD_ATTRIBUTES_ALLOWED: u64 = 0x1000_0000;
/// The TDX module's major version. SVNs of different major versions cannot be compared.
const MODULE_MAJOR: usize = 1;

/// An unaligned value of the quote.
fn number<T: Copy>(at: *const u8, offset: usize) -> T {
    unsafe { (at.add(offset) as *const T).read_unaligned() }
}

pub struct Quote {
    body: *const u8,
    is_15: bool,
}

impl Quote {
    #[inline(never)]
    pub fn read(signed: *const u8, length: usize) -> Result<Self, Fault> {
        require(length >= HEADER_BYTES + BODY_10_BYTES, WRONG_BODY)?;
        let version: u16 = number(signed, 0);
        require(version == 4 || version == 5, UNSUPPORTED_QUOTE)?;
        require(number::<u16>(signed, 2) == ECDSA_P256, WRONG_KEY_TYPE)?;
        require(number::<u32>(signed, 4) == TEE_TDX, WRONG_TEE)?;
        require(number::<u32>(signed, 8) == 0, RESERVED_NOT_ZERO)?;
        let vendor = unsafe { signed.add(12) };
        require(compare(vendor, INTEL.as_ptr(), INTEL.len()) == Ordering::Equal, WRONG_VENDOR)?;
        let behind = if version == 4 { 0 } else { DESCRIPTOR_BYTES };
        let is_15 = version == 5 && number::<u16>(signed, HEADER_BYTES) == 3;
        let size = if is_15 { BODY_15_BYTES } else { BODY_10_BYTES };
        require(length == HEADER_BYTES + behind + size, WRONG_BODY)?;
        if version == 5 {
            let kind: u16 = number(signed, HEADER_BYTES);
            require(kind == 2 || kind == 3, WRONG_BODY)?;
            require(number::<u32>(signed, HEADER_BYTES + 2) as usize == size, WRONG_BODY)?;
        }
        Ok(Quote { body: unsafe { signed.add(HEADER_BYTES + behind) }, is_15 })
    }

    fn at(&self, offset: usize) -> *const u8 {
        unsafe { self.body.add(offset) }
    }

    /// A genuine, unmodified module runs a machine without debugging, migration or service TD.
    #[inline(never)]
    pub fn require_machine(&self) -> Outcome {
        require(is_blank(self.at(MR_SIGNER_SEAM), REGISTER_BYTES), WRONG_SEAM_SIGNER)?;
        require(is_blank(self.at(SEAM_ATTRIBUTES), 8), WRONG_SEAM_ATTRIBUTES)?;
        require(number::<u64>(self.body, TD_ATTRIBUTES) == TD_ATTRIBUTES_ALLOWED, WRONG_TD_ATTRIBUTES)?;
        require(!self.is_15 || is_blank(self.at(MR_SERVICE_TD), REGISTER_BYTES), SERVICE_TD_BOUND)
    }

    /// `minimum`: of the TDX module at launch and, in body type 3, of the one that runs now.
    #[inline(never)]
    pub fn require_versions(&self, minimum: *const u8) -> Outcome {
        require_version(self.body, minimum)?;
        if self.is_15 {
            require_version(self.at(TEE_TCB_SVN_2), minimum)?;
        }
        Ok(())
    }

    /// SHA-256(MRTD ‖ RTMR0 ‖ RTMR1 ‖ RTMR2 ‖ XFAM).
    pub fn image(&self) -> Bytes32 {
        sha256([
            Slice::of(self.at(MR_TD), REGISTER_BYTES),
            Slice::of(self.at(RTMR_0), 3 * REGISTER_BYTES),
            Slice::of(self.at(XFAM), 8),
        ])
    }

    pub fn rtmr_3(&self) -> *const u8 {
        self.at(RTMR_3)
    }

    /// Where the host set MRCONFIGID in the form of a compose hash, it is this one. Older images do not enforce it.
    #[inline(never)]
    pub fn require_config_id(&self, compose_hash: Word) -> Outcome {
        let id = self.at(MR_CONFIG_ID);
        if unsafe { *id } != 1 {
            return Ok(());
        }
        let named = Word::at(unsafe { id.add(1) }).equals(compose_hash);
        require(named && is_blank(unsafe { id.add(33) }, REGISTER_BYTES - 33), WRONG_CONFIG_ID)
    }

    pub fn report_data(&self) -> *const u8 {
        self.at(REPORT_DATA)
    }
}

fn require_version(svn: *const u8, minimum: *const u8) -> Outcome {
    let major = unsafe { (*svn.add(MODULE_MAJOR), *minimum.add(MODULE_MAJOR)) };
    require(major.0 == major.1, WRONG_MODULE_VERSION)?;
    let mut value = [0u8; 18];
    crate::bytes::copy(value.as_mut_ptr(), svn, 16);
    require(reaches(value.as_ptr(), minimum), TEE_TCB_BELOW_MINIMUM)
}

pub const QE_REPORT_BYTES: usize = 384;
const QE_MISC_SELECT: usize = 16;
const QE_ATTRIBUTES: usize = 48;
const QE_MR_SIGNER: usize = 128;
const QE_PRODUCT: usize = 256;
const QE_SVN: usize = 258;
const QE_REPORT_DATA: usize = 320;

/// Intel's signer of architectural enclaves.
static QE_SIGNER: Bytes32 = Bytes32([
    0xdc, 0x9e, 0x2a, 0x7c, 0x6f, 0x94, 0x8f, 0x17, 0x47, 0x4e, 0x34, 0xa7, 0xfc, 0x43, 0xed, 0x03, 0x0f,
    0x7c, 0x15, 0x63, 0xf1, 0xba, 0xbd, 0xdf, 0x63, 0x40, 0xc8, 0x2e, 0x0e, 0x54, 0xa8, 0xc5,
]);
/// Of the quoting enclave for TDs.
const QE_TD: u16 = 2;
/// Initialized and 64-bit; PROVISION_KEY may be set, DEBUG may not.
const QE_FLAGS: u64 = 0x11;
const QE_FLAGS_MASK: u64 = 0xffff_ffff_ffff_fffb;

/// The quoting enclave is Intel's, and the attestation key x ‖ y is its own. `minimum`: with its SVN alone.
#[inline(never)]
pub fn require_enclave(
    report: *const u8,
    key: *const u8,
    auth: (*const u8, usize),
    minimum: *const u8,
) -> Outcome {
    let signer = Word::at(unsafe { report.add(QE_MR_SIGNER) });
    require(signer.equals(Word::of(&QE_SIGNER)), WRONG_QE_SIGNER)?;
    require(number::<u16>(report, QE_PRODUCT) == QE_TD, WRONG_QE_PRODUCT)?;
    let flags: u64 = number(report, QE_ATTRIBUTES);
    require(flags & QE_FLAGS_MASK == QE_FLAGS, WRONG_QE_ATTRIBUTES)?;
    require(number::<u32>(report, QE_MISC_SELECT) == 0, WRONG_QE_MISC_SELECT)?;
    let mut value = [0u8; 18];
    crate::bytes::copy(unsafe { value.as_mut_ptr().add(16) }, unsafe { report.add(QE_SVN) }, 2);
    require(reaches(value.as_ptr(), minimum), QE_BELOW_MINIMUM)?;
    let named = sha256([Slice::of(key, 64), Slice::of(auth.0, auth.1)]);
    let data = unsafe { report.add(QE_REPORT_DATA) };
    let matches = Word::at(data).equals(Word::of(&named)) && is_blank(unsafe { data.add(32) }, 32);
    require(matches, WRONG_ATTESTATION_KEY)
}
