//! `claim_escape`: the owner of a note in a frozen vault demands its payment.
use crate::account::record::Record;
use crate::bytes::{Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::escape_claim::{self, EscapeClaimData, BOND, ESCAPE_CLAIM_BYTES, LATE, REFUND, WINDOW};
use crate::event::{Event, ESCAPE_CLAIMED};
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::note::opening::Inclusion;
use crate::tree::Trees;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [owner, payer, config, tree, ring, mint_record, account, system, us] = call.exactly()?;
    let (inclusion, [destination]) = Inclusion::read(data)?;
    require(inclusion.opening.amount != 0, INVALID_DATA)?;
    us.require_key(call.program)?;
    system.require_system_program()?;
    owner.require_signer()?;
    let config = Config::load(config, call.program)?;
    require(config.is_frozen(), VAULT_NOT_FROZEN)?;
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    let mint_record = MintRecord::load_writable(mint_record, call.program)?;
    let note = inclusion.open(trees, ring, mint_record.mint(), owner.key())?;

    let new = NewAccount {
        seeds: Seeds(&[escape_claim::SEED, &note.nullifier.0]),
        size: ESCAPE_CLAIM_BYTES,
        owner: call.program,
        bond: BOND,
    };
    require(!account.owner().equals(call.program), ALREADY_CLAIMED)?;
    let (amount, leaf_index) = (inclusion.opening.amount, inclusion.opening.leaf_index);
    let now_s = now()?.unix_s;
    let rank = if leaf_index >= get!(config.record, frozen_leaf_count) {
        REFUND
    } else if now_s < config.claim_window_end_s()? {
        mint_record.add_window_claim(amount);
        WINDOW
    } else {
        LATE
    };
    let bump = create(payer, account, &new, call.program)?;
    let claim = Record::<EscapeClaimData>::begin(account, bump);
    set!(claim, rank, rank);
    set_word!(claim, nullifier, Word::of(&note.nullifier));
    set_word!(claim, mint, mint_record.mint());
    set!(claim, amount, amount);
    set_word!(claim, destination, destination);
    set_word!(claim, owner, owner.key());
    set_word!(claim, bond_payer, payer.key());
    set!(claim, claimed_at_s, now_s);

    let mut event = Event::begin(ESCAPE_CLAIMED);
    event.word(Word::of(&note.nullifier));
    event.word(Word::of(&note.commitment));
    event.u64(leaf_index);
    event.word(mint_record.mint());
    event.u64(amount);
    event.word(destination);
    event.word(owner.key());
    event.u8(rank);
    event.u64(config.claim_due_s(now_s)?);
    event.emit(&config, call.program)
}
