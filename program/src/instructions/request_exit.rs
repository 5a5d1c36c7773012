//! `request_exit`: the owner of a note demands its payout before a deadline.
use crate::account::record::Record;
use crate::bytes::{Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::event::{Event, EXIT_REQUESTED};
use crate::exit_request::{self, ExitRequestData, BOND, EXIT_REQUEST_BYTES};
use crate::field::require_element;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::note::opening::Inclusion;
use crate::tree::Trees;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [owner, payer, config, tree, ring, mint_record, account, system, us] = call.exactly()?;
    let (inclusion, [destination, refund_inner]) = Inclusion::read(data)?;
    require_element(refund_inner)?;
    us.require_key(call.program)?;
    system.require_system_program()?;
    owner.require_signer()?;
    let config = Config::load(config, call.program)?;
    require(!config.is_frozen(), VAULT_FROZEN)?;
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    let mint_record = MintRecord::load(mint_record, call.program)?;
    let opening = &inclusion.opening;
    require(opening.amount >= mint_record.min_exit(), BELOW_MIN_EXIT)?;
    let note = inclusion.open(trees, ring, mint_record.mint(), owner.key())?;

    let new = NewAccount {
        seeds: Seeds(&[exit_request::SEED, &note.nullifier.0]),
        size: EXIT_REQUEST_BYTES,
        owner: call.program,
        bond: BOND,
    };
    require(!account.owner().equals(call.program), EXIT_ALREADY_REQUESTED)?;
    let now = now()?;
    let deadline_s = now.unix_s.checked_add(config.exit_delay_s()).ok_or(OVERFLOW)?;
    let bump = create(payer, account, &new, call.program)?;
    let record = Record::<ExitRequestData>::begin(account, bump);
    set_word!(record, nullifier, Word::of(&note.nullifier));
    set_word!(record, commitment, Word::of(&note.commitment));
    set_word!(record, mint, mint_record.mint());
    set!(record, amount, opening.amount);
    set_word!(record, destination, destination);
    set_word!(record, refund_inner, refund_inner);
    set_word!(record, bond_payer, payer.key());
    set!(record, deadline_s, deadline_s);
    set!(record, requested_slot, now.slot);

    let mut event = Event::begin(EXIT_REQUESTED);
    event.word(Word::of(&note.nullifier));
    event.word(Word::of(&note.commitment));
    event.u64(opening.leaf_index);
    event.word(mint_record.mint());
    event.u64(opening.amount);
    event.word(destination);
    event.word(refund_inner);
    event.u64(deadline_s);
    event.emit(&config, call.program)
}
