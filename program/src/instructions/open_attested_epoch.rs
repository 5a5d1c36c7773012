//! `open_attested_epoch`: the booting instance fences every earlier one with a quote that the program verifies: genuine hardware on
//! the admin's list, an announced image and build, and the new settlement key, co-signed by the epoch authority.
use super::opening::{advance, emit, read, Known, Opening};
use crate::account::Account;
use crate::attest::announcement::*;
use crate::attest::event_log::{replay, APP_ID_BYTES};
use crate::attest::platform::Platform;
use crate::attest::precompile::{require_verified, Signed};
use crate::attest::quote::{require_enclave, Quote, QE_REPORT_BYTES};
use crate::bytes::{compare, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, EPOCH_ATTESTED};
use crate::hash::{sha256, Slice};
use crate::input::Call;
use core::cmp::Ordering;

/// Places of the precompile's inputs in the data, its first byte included.
const QUOTE_SIGNATURE: u16 = 1;
const ATTESTATION_KEY: u16 = 65;
const QE_SIGNATURE: u16 = 130;
const PCK_KEY: u16 = 194;
const QE_REPORT: u16 = 227;
const QUOTE: u16 = 613;

/// Second half of the report data; an attestation's is a hash, that of evidence zeros.
const PURPOSE: &[u8; 14] = b"tacit/epoch/v1";

/// The data's fields about hardware, before those of the opening.
struct Evidence {
    parity: u8,
    /// x ‖ y.
    attestation_key: *const u8,
    /// Compressed.
    pck_key: *const u8,
    qe_report: *const u8,
    signed: *const u8,
    signed_length: u16,
    auth: *const u8,
    auth_length: usize,
}

fn read_evidence(data: &mut Reader) -> Result<Evidence, Fault> {
    data.take(64)?;
    let parity = data.u8()?;
    let attestation_key = data.take(64)?;
    data.take(64)?;
    let pck_key = data.take(33)?;
    let qe_report = data.take(QE_REPORT_BYTES)?;
    let signed_length = data.u16()?;
    let signed = data.take(signed_length as usize)?;
    let auth_length = data.u8()? as usize;
    let auth = data.take(auth_length)?;
    Ok(Evidence { parity, attestation_key, pck_key, qe_report, signed, signed_length, auth, auth_length })
}

/// The records that an opening rests on, in the order of the accounts.
struct Records {
    root: Account,
    platform: Account,
    machine: Account,
    fmspc_minimum: Account,
    tee_tcb_minimum: Account,
    qe_minimum: Account,
    image: Account,
    build: Account,
    app_id: Account,
    key_provider: Account,
    at: Moment,
}

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    #[rustfmt::skip]
    let [
        signer, authority_signer, config, tree, ring, authority, root, platform, machine, fmspc_minimum,
        tee_tcb_minimum, qe_minimum, image, build, app_id, key_provider, sysvar, us,
    ] = call.exactly()?;
    let evidence = read_evidence(&mut data)?;
    let opening = read(&mut data)?;
    us.require_key(call.program)?;
    require_verified(
        sysvar,
        [
            Signed {
                signature: QUOTE_SIGNATURE,
                key: ATTESTATION_KEY,
                message: QUOTE,
                length: evidence.signed_length,
            },
            Signed {
                signature: QE_SIGNATURE,
                key: PCK_KEY,
                message: QE_REPORT,
                length: QE_REPORT_BYTES as u16,
            },
        ],
    )?;
    let config = Config::load_writable(config, call.program)?;
    let now = now()?;
    let at = Moment { program: call.program, now_s: now.unix_s };
    signer.require_signer()?;
    require(!signer.key().equals(word!(config.record, settlement_signer)), KEY_NOT_FRESH)?;
    authority_signer.require_signer()?;
    let named = Announcement::current(authority, EPOCH_AUTHORITY, &at)?;
    require(authority_signer.key().equals(Word::at(named)), NOT_EPOCH_AUTHORITY)?;
    let known = Known { tree, ring, program: call.program };
    advance(config, &known, &opening, &now)?;

    let records = Records {
        root,
        platform,
        machine,
        fmspc_minimum,
        tee_tcb_minimum,
        qe_minimum,
        image,
        build,
        app_id,
        key_provider,
        at,
    };
    require_hardware(&evidence, &records)?;
    let quote = Quote::read(evidence.signed, evidence.signed_length as usize)?;
    require_machine(&quote, &records)?;
    require_software(&quote, data, opening.compose_hash, &records)?;
    require_report_data(&quote, config, &opening, signer.key())?;

    set_word!(config.record, settlement_signer, signer.key());
    emit(config, &opening, call)?;
    let hash = sha256([Slice::of(evidence.signed, evidence.signed_length as usize)]);
    let mut event = Event::begin(EPOCH_ATTESTED);
    event.u64(opening.epoch);
    event.word(signer.key());
    event.word(Word::of(&hash));
    event.bytes(evidence.pck_key, 33);
    event.emit(&config, call.program)
}

/// The quoting enclave's report is Intel's, from a listed machine of recent enough versions.
#[inline(never)]
fn require_hardware(evidence: &Evidence, records: &Records) -> Outcome {
    let root = Announcement::current(records.root, ATTESTATION_ROOT, &records.at)?;
    let platform = Platform::load(records.platform, evidence.pck_key, root, records.at.program)?;
    let ppid = Entry { list: PLATFORM, id: platform.ppid(), width: 16, other: WRONG_PLATFORM };
    Announcement::entry(records.machine, &ppid, &records.at)?;
    let fmspc = Entry { list: FMSPC_MINIMUM, id: platform.fmspc(), width: 6, other: WRONG_PLATFORM };
    let minimum = Announcement::entry(records.fmspc_minimum, &fmspc, &records.at)?;
    platform.require_versions(minimum)?;
    let key = evidence.attestation_key;
    require(evidence.parity == 2 + unsafe { *key.add(63) & 1 }, WRONG_PARITY)?;
    let minimum = Announcement::current(records.qe_minimum, QE_MINIMUM, &records.at)?;
    require_enclave(evidence.qe_report, key, (evidence.auth, evidence.auth_length), minimum)
}

/// The machine runs an announced image on a recent enough TDX module.
#[inline(never)]
fn require_machine(quote: &Quote, records: &Records) -> Outcome {
    quote.require_machine()?;
    let minimum = Announcement::current(records.tee_tcb_minimum, TEE_TCB_MINIMUM, &records.at)?;
    quote.require_versions(minimum)?;
    let image = quote.image();
    let id = Entry { list: IMAGE, id: image.0.as_ptr(), width: 32, other: WRONG_IMAGE };
    Announcement::entry(records.image, &id, &records.at)?;
    Ok(())
}

/// SHA-256(venue ‖ epoch ‖ settlement key ‖ boot nonce), then the purpose. The venue is that of the resulting generation.
#[inline(never)]
fn require_report_data(quote: &Quote, config: Config, opening: &Opening, key: Word) -> Outcome {
    let epoch = opening.epoch.to_le_bytes();
    let bound = sha256([
        word!(config.record, venue).into(),
        epoch[..].into(),
        key.into(),
        Slice::of(opening.boot_nonce, 16),
    ]);
    let data = quote.report_data();
    let purpose = unsafe { data.add(32) };
    let named = compare(purpose, PURPOSE.as_ptr(), PURPOSE.len()) == Ordering::Equal
        && crate::bytes::is_blank(unsafe { purpose.add(PURPOSE.len()) }, 32 - PURPOSE.len());
    require(named && Word::at(data).equals(Word::of(&bound)), WRONG_REPORT_DATA)
}

/// The machine measured an announced build of this app, with keys of this provider.
#[inline(never)]
fn require_software(quote: &Quote, log: Reader, compose_hash: Word, records: &Records) -> Outcome {
    let claims = replay(log, quote.rtmr_3())?;
    let measured = Word::at(claims.compose_hash.at);
    require(measured.equals(compose_hash), WRONG_BUILD)?;
    quote.require_config_id(measured)?;
    let id = Entry { list: BUILD, id: measured.as_ptr(), width: 32, other: WRONG_BUILD };
    Announcement::entry(records.build, &id, &records.at)?;
    let app_id = Announcement::current(records.app_id, APP_ID, &records.at)?;
    require(compare(claims.app_id.at, app_id, APP_ID_BYTES) == Ordering::Equal, WRONG_APP_ID)?;
    let provider = sha256([Slice::of(claims.key_provider.at, claims.key_provider.length)]);
    let named = Announcement::current(records.key_provider, KEY_PROVIDER, &records.at)?;
    require(Word::at(named).equals(Word::of(&provider)), WRONG_KEY_PROVIDER)
}
