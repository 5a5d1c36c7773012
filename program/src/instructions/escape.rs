//! `escape`: in a frozen vault the owner of an unspent note takes its tokens, with public data alone.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Reader, Word};
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::event::{Event, ESCAPED};
use crate::exit_request::ExitRequest;
use crate::field::require_reduced;
use crate::input::Call;
use crate::note::spent_leaf;
use crate::opening::{Note, Opening};
use crate::payout::{PayoutMint, PAID};
use crate::tree::{root_from_path, NoteTree, PATH_BYTES};
use core::cmp::Ordering;

const SEED: &[u8] = b"escape";
/// Places of mint_record, mint, vault_token; the token program stands behind the destination.
const MINT_PLACES: [usize; 4] = [4, 5, 6, 8];

/// Its existence forbids a second escape of the same note.
#[repr(C)]
struct EscapeRecordData {
    head: Head,
    _zeros: [u8; 5],
    nullifier: Bytes32,
    amount: u64,
}

const RECORD_BYTES: usize = core::mem::size_of::<EscapeRecordData>();
const _: () = assert!(RECORD_BYTES == 48);

impl Layout for EscapeRecordData {
    const KIND: u8 = 6;
}

struct Proof {
    opening: Opening,
    low_value: Word,
    low_next: Word,
    low_index: u64,
    path: *const u8,
    low_path: *const u8,
}

fn read(mut data: Reader) -> Result<Proof, Fault> {
    let proof = Proof {
        opening: Opening::read(&mut data)?,
        low_value: data.word()?,
        low_next: data.word()?,
        low_index: data.u64()?,
        path: data.take(PATH_BYTES)?,
        low_path: data.take(PATH_BYTES)?,
    };
    data.end()?;
    require_reduced(proof.low_value)?;
    require_reduced(proof.low_next)?;
    Ok(proof)
}

/// The note stands in the final note tree.
fn require_included(proof: &Proof, note: &Note, tree: NoteTree) -> Outcome {
    require(proof.opening.leaf_index < tree.leaf_count(), INVALID_INCLUSION)?;
    let root = root_from_path(Word::of(&note.commitment), proof.opening.leaf_index, proof.path)?;
    require(Word::of(&root).equals(tree.root()), INVALID_INCLUSION)
}

/// A leaf of the final spent tree skips the nullifier: its value lies below, its next above or there is none.
fn require_unspent(proof: &Proof, nullifier: Word, spent_root: Word) -> Outcome {
    let below = proof.low_value.compare(nullifier) == Ordering::Less;
    let above = proof.low_next.is_zero() || proof.low_next.compare(nullifier) == Ordering::Greater;
    require(below && above, NOTE_SPENT)?;
    let leaf = spent_leaf(proof.low_value, proof.low_next)?;
    let root = root_from_path(Word::of(&leaf), proof.low_index, proof.low_path)?;
    require(Word::of(&root).equals(spent_root), INVALID_SPENT_PROOF)
}

pub fn run(call: &Call, data: Reader) -> Outcome {
    let proof = read(data)?;
    call.require_count(14)?;
    let [owner, payer, config, tree, _, _, _, destination, _, record, request, bond_payer, system, us] =
        call.first()?;
    us.require_key(call.program)?;
    system.require_system_program()?;
    owner.require_signer()?;
    let config = Config::load(config, call.program)?;
    require(config.is_frozen(), NOT_FROZEN)?;
    let tree = NoteTree::load(tree, call.program)?;
    let mint = PayoutMint::load_at(call, MINT_PLACES)?;
    let note = proof.opening.open(mint.mint.key(), owner.key())?;
    require_included(&proof, &note, tree)?;
    require_unspent(&proof, Word::of(&note.nullifier), config.spent_root())?;
    let new = NewAccount {
        seeds: Seeds(&[SEED, &note.nullifier.0]),
        size: RECORD_BYTES,
        owner: call.program,
        bond: 0,
    };
    require(!record.owner().equals(call.program), ALREADY_ESCAPED)?;
    write_record(record, create(payer, record, &new, call.program)?, &note.nullifier, proof.opening.amount)?;
    require(mint.pay(destination, proof.opening.amount, config)? == PAID, DESTINATION_UNUSABLE)?;
    return_bond(call, request, bond_payer, &note.nullifier)?;

    let mut event = Event::begin(ESCAPED);
    event.word(Word::of(&note.nullifier));
    event.word(mint.mint.key());
    event.u64(proof.opening.amount);
    event.word(destination.key());
    event.emit(&config, call.program)
}

fn write_record(account: Account, bump: u8, nullifier: &Bytes32, amount: u64) -> Outcome {
    let record = Record::<EscapeRecordData>::begin(account, bump)?;
    set_word!(record, nullifier, Word::of(nullifier));
    set!(record, amount, amount);
    Ok(())
}

/// Closes the note's exit request if it is still open.
fn return_bond(call: &Call, account: Account, bond_payer: Account, nullifier: &Bytes32) -> Outcome {
    if !account.owner().equals(call.program) {
        return Ok(());
    }
    ExitRequest::load(account, Word::of(nullifier), call.program)?.return_bond(bond_payer)
}
