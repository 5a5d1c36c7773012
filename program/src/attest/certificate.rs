//! Reads the signed part of a PCK certificate and of its authority's (RFC 5280, Intel's certificate profile). Who signed it is
//! the precompile's to say, and when it is valid the clients'.
use super::der::*;
use crate::error::*;

const ECDSA_SHA256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
pub const SGX: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x01];
/// Of a P-256 key: everything before its uncompressed point x ‖ y.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
const EXTENSIONS_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    /// Signs PCK certificates.
    Authority,
    /// Belongs to one machine at one TCB level.
    Leaf,
}

pub struct Certificate {
    pub issuer: Der,
    pub subject: Der,
    /// Of the key x ‖ y.
    pub point: *const u8,
    /// Value of the SGX extension, empty for an authority.
    pub sgx: Der,
}

impl Certificate {
    /// First byte of the compressed key.
    pub fn parity(&self) -> u8 {
        2 + (unsafe { *self.point.add(63) } & 1)
    }
}

#[inline(never)]
pub fn read(mut tbs: Der, role: Role) -> Result<Certificate, Fault> {
    let mut fields = tbs.item(SEQUENCE)?;
    tbs.end()?;
    let mut version = fields.item(EXPLICIT_0)?;
    require(version.integer(2)? == 2, INVALID_CERTIFICATE)?;
    version.end()?;
    fields.item(INTEGER)?.require_natural()?;
    require(fields.item(SEQUENCE)?.is(ECDSA_SHA256), INVALID_CERTIFICATE)?;
    let issuer = fields.whole(SEQUENCE)?;
    fields.item(SEQUENCE)?;
    let subject = fields.whole(SEQUENCE)?;
    let key = fields.item(SEQUENCE)?;
    require(key.left == P256.len() + 64 && key.starts_with(P256), INVALID_CERTIFICATE)?;
    let mut rest = fields.item(EXPLICIT_3)?;
    fields.end()?;
    let extensions = rest.item(SEQUENCE)?;
    rest.end()?;
    require_name(subject, role)?;
    let sgx = read_extensions(extensions, role)?;
    Ok(Certificate { issuer, subject, point: unsafe { key.at.add(P256.len()) }, sgx })
}

/// One common name, which ends in the words of the role.
#[inline(never)]
fn require_name(mut name: Der, role: Role) -> Outcome {
    let words: &[u8] = match role {
        Role::Authority => b" SGX PCK Platform CA",
        Role::Leaf => b" SGX PCK Certificate",
    };
    let mut sets = name.item(SEQUENCE)?;
    let mut found = 0;
    while !sets.is_empty() {
        let mut set = sets.item(SET)?;
        let mut attribute = set.item(SEQUENCE)?;
        set.end()?;
        let kind = attribute.item(OID)?;
        let tag = attribute.tag();
        require(tag == UTF8 || tag == PRINTABLE, INVALID_CERTIFICATE)?;
        let text = attribute.item(tag)?;
        attribute.end()?;
        if kind.is(COMMON_NAME) {
            require(text.ends_with(words), WRONG_CERTIFICATE_ROLE)?;
            found += 1;
        }
    }
    require(found == 1, WRONG_CERTIFICATE_ROLE)
}

/// Each extension once, no critical one that is unknown here; answers the value of the SGX extension.
#[inline(never)]
fn read_extensions(mut list: Der, role: Role) -> Result<Der, Fault> {
    let none = Der::new(list.at, 0);
    let mut seen = [none; EXTENSIONS_MAX];
    let (mut count, mut sgx) = (0, none);
    let (mut has_constraints, mut has_usage) = (false, false);
    while !list.is_empty() {
        let mut one = list.item(SEQUENCE)?;
        let kind = one.item(OID)?;
        let critical = one.tag() == 0x01;
        if critical {
            require(unsafe { *one.sized(0x01, 1)? } == 0xff, INVALID_CERTIFICATE)?;
        }
        let value = one.item(OCTETS)?;
        one.end()?;
        require(count < EXTENSIONS_MAX, WRONG_EXTENSION)?;
        let mut index = 0;
        while index < count {
            require(!seen[index & (EXTENSIONS_MAX - 1)].equals(&kind), WRONG_EXTENSION)?;
            index += 1;
        }
        seen[count & (EXTENSIONS_MAX - 1)] = kind;
        count += 1;
        if kind.is(BASIC_CONSTRAINTS) {
            require(critical && is_constraint(value, role), WRONG_CERTIFICATE_ROLE)?;
            has_constraints = true;
        } else if kind.is(KEY_USAGE) {
            let usage: &[u8] = match role {
                Role::Authority => &[0x03, 0x02, 0x01, 0x06],
                Role::Leaf => &[0x03, 0x02, 0x06, 0xc0],
            };
            require(value.is(usage), WRONG_CERTIFICATE_ROLE)?;
            has_usage = true;
        } else if kind.is(SGX) {
            require(role == Role::Leaf, WRONG_CERTIFICATE_ROLE)?;
            sgx = value;
        } else {
            require(!critical, WRONG_EXTENSION)?;
        }
    }
    require(has_constraints && has_usage, WRONG_CERTIFICATE_ROLE)?;
    require((sgx.left > 0) == (role == Role::Leaf), WRONG_EXTENSION)?;
    Ok(sgx)
}

/// An authority of path length 0, or a sequence that says nothing.
fn is_constraint(mut value: Der, role: Role) -> bool {
    let Ok(mut inside) = value.item(SEQUENCE) else { return false };
    if role == Role::Leaf {
        return inside.is_empty() && value.is_empty();
    }
    let authority = inside.starts_with(&[0x01, 0x01, 0xff]) && inside.item(0x01).is_ok();
    authority && matches!(inside.integer(0), Ok(0)) && inside.is_empty() && value.is_empty()
}
