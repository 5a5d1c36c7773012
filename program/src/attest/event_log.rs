//! Replays the boot events that extended register 3 of a machine (RTMR3) and reads the claims among them. Each event is hashed
//! as a runtime event of version 1, under any name in the machine's own log.
use super::sha384::{Sha384, DIGEST_BYTES};
use crate::bytes::{compare, Reader};
use crate::error::*;
use core::cmp::Ordering;

/// Event type of dstack's runtime events, little-endian, and the separator behind it.
const TYPE: [u8; 5] = [0x01, 0x00, 0x00, 0x08, b':'];
const PAYLOAD_MAX: usize = 1_024;

pub const COMPOSE_HASH_BYTES: usize = 32;
pub const APP_ID_BYTES: usize = 20;

#[derive(Clone, Copy)]
pub struct Payload {
    pub at: *const u8,
    pub length: usize,
}

/// Measurements of the machine before its application started.
pub struct Claims {
    pub compose_hash: Payload,
    pub app_id: Payload,
    pub key_provider: Payload,
}

const NAMES: [&[u8]; 4] = [b"compose-hash", b"app-id", b"key-provider", b"system-ready"];
const READY: usize = 3;

/// Number of a name in `NAMES`, their count for any other.
fn claim_of(name: *const u8, length: usize) -> usize {
    let mut number = 0;
    for known in NAMES {
        if known.len() == length && compare(known.as_ptr(), name, length) == Ordering::Equal {
            return number;
        }
        number += 1;
    }
    number
}

/// The digest does not say where the name ends: with a separator in it, one claim could be shown as another event.
fn require_name(name: *const u8, length: usize) -> Outcome {
    require(length > 0, INVALID_EVENT)?;
    let mut index = 0;
    while index < length {
        require(unsafe { *name.add(index) } != b':', SEPARATOR_IN_EVENT)?;
        index += 1;
    }
    Ok(())
}

/// Events to the end of the data: name length u8, name, payload length u16, payload.
#[inline(never)]
pub fn replay(mut log: Reader, register: *const u8) -> Result<Claims, Fault> {
    let none = Payload { at: core::ptr::null(), length: 0 };
    let mut found = [none; NAMES.len()];
    let mut value = [0u8; DIGEST_BYTES];
    while !log.is_empty() {
        let length = log.u8()? as usize;
        let name = log.take(length)?;
        require_name(name, length)?;
        let payload_length = log.u16()? as usize;
        require(payload_length <= PAYLOAD_MAX, INVALID_EVENT)?;
        let payload = log.take(payload_length)?;
        extend(&mut value, name, length, payload, payload_length);
        let number = claim_of(name, length);
        if number < NAMES.len() {
            let place = unsafe { &mut *found.as_mut_ptr().add(number) };
            require(place.at.is_null(), REPEATED_EVENT)?;
            require(found[READY].at.is_null(), LATE_EVENT)?;
            unsafe { *found.as_mut_ptr().add(number) = Payload { at: payload, length: payload_length } };
        }
    }
    require(compare(value.as_ptr(), register, DIGEST_BYTES) == Ordering::Equal, WRONG_REGISTER)?;
    let [compose_hash, app_id, key_provider, ready] = found;
    for one in [compose_hash, app_id, key_provider, ready] {
        require(!one.at.is_null(), MISSING_EVENT)?;
    }
    let widths = compose_hash.length == COMPOSE_HASH_BYTES && app_id.length == APP_ID_BYTES;
    require(widths && ready.length == 0, INVALID_EVENT)?;
    Ok(Claims { compose_hash, app_id, key_provider })
}

/// The register becomes SHA-384(register ‖ SHA-384(type ‖ ":" ‖ name ‖ ":" ‖ payload)).
#[inline(never)]
fn extend(
    value: &mut [u8; DIGEST_BYTES],
    name: *const u8,
    length: usize,
    payload: *const u8,
    payload_length: usize,
) {
    let mut digest = [0u8; DIGEST_BYTES];
    let mut hash = Sha384::new();
    hash.update(TYPE.as_ptr(), TYPE.len());
    hash.update(name, length);
    hash.update(TYPE[TYPE.len() - 1..].as_ptr(), 1);
    hash.update(payload, payload_length);
    hash.finish(digest.as_mut_ptr());
    let mut hash = Sha384::new();
    hash.update(value.as_ptr(), DIGEST_BYTES);
    hash.update(digest.as_ptr(), DIGEST_BYTES);
    hash.finish(value.as_mut_ptr());
}
