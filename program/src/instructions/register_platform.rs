//! `register_platform`: anyone shows a machine's certificate under the announced root, once for each certificate.
use crate::attest::announcement::{Announcement, Moment, ATTESTATION_ROOT};
use crate::attest::certificate::{read, Role};
use crate::attest::der::Der;
use crate::attest::platform::{begin, PLATFORM_BYTES, SEED};
use crate::attest::precompile::{require_verified, Signed};
use crate::attest::sgx_extension;
use crate::bytes::{compare, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::event::{Event, PLATFORM_REGISTERED};
use crate::input::Call;
use core::cmp::Ordering;

/// Places of the precompile's inputs in the data, its first byte included.
const LEAF_SIGNATURE: u16 = 1;
const AUTHORITY_KEY: u16 = 65;
const AUTHORITY_SIGNATURE: u16 = 98;
const ROOT_KEY: u16 = 162;
const LEAF: u16 = 197;
const KEY_BYTES: usize = 33;
const LENGTH_BYTES: u16 = 2;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [payer, config, root, account, sysvar, system, us] = call.exactly()?;
    data.take(64)?;
    let authority_key = data.take(KEY_BYTES)?;
    data.take(64)?;
    let root_key = data.take(KEY_BYTES)?;
    let leaf_length = data.u16()?;
    let leaf = Der::new(data.take(leaf_length as usize)?, leaf_length as usize);
    let authority_length = data.u16()?;
    let authority = Der::new(data.take(authority_length as usize)?, authority_length as usize);
    data.end()?;
    us.require_key(call.program)?;
    system.require_system_program()?;
    let behind = LEAF + leaf_length + LENGTH_BYTES;
    require_verified(
        sysvar,
        [
            Signed { signature: LEAF_SIGNATURE, key: AUTHORITY_KEY, message: LEAF, length: leaf_length },
            Signed {
                signature: AUTHORITY_SIGNATURE,
                key: ROOT_KEY,
                message: behind,
                length: authority_length,
            },
        ],
    )?;
    let config = Config::load(config, call.program)?;
    let announced = Announcement::current(
        root,
        ATTESTATION_ROOT,
        &Moment { program: call.program, now_s: now()?.unix_s },
    )?;
    require(compare(root_key, announced, KEY_BYTES) == Ordering::Equal, WRONG_ROOT)?;

    let authority = read(authority, Role::Authority)?;
    let named = unsafe { *authority_key } == authority.parity()
        && compare(unsafe { authority_key.add(1) }, authority.point, 32) == Ordering::Equal;
    require(named, WRONG_AUTHORITY)?;
    let leaf = read(leaf, Role::Leaf)?;
    require(leaf.issuer.equals(&authority.subject), WRONG_AUTHORITY)?;
    let sgx = sgx_extension::read(leaf.sgx)?;

    let key = Word::at(leaf.point).load();
    let new =
        NewAccount { seeds: Seeds(&[SEED, &key.0]), size: PLATFORM_BYTES, owner: call.program, bond: 0 };
    let bump = create(payer, account, &new, call.program)?;
    begin(account, bump, &leaf, &sgx, root_key);

    let mut event = Event::begin(PLATFORM_REGISTERED);
    event.u8(leaf.parity());
    event.word(Word::of(&key));
    event.bytes(sgx.ppid, 16);
    event.bytes(sgx.fmspc, 6);
    event.bytes(sgx.components.as_ptr(), 16);
    event.u16(sgx.pce_svn);
    event.emit(&config, call.program)
}
