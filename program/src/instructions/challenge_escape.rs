//! `challenge_escape`: proof that a batch spent the claimed note; the bond goes to who proves it.
use crate::bytes::Reader;
use crate::config::Config;
use crate::error::*;
use crate::escape_claim::{self, BOND, CANCELLED, REFUND, WINDOW};
use crate::event::{Event, ESCAPE_CHALLENGED};
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::tree::spent_proof::SpentProof;
use crate::tree::Trees;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [challenger, config, tree, ring, mint_record, account, us] = call.exactly()?;
    let proof = SpentProof::read(data)?;
    us.require_key(call.program)?;
    challenger.require_signer()?;
    let config = Config::load(config, call.program)?;
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    let mint_record = MintRecord::load_writable(mint_record, call.program)?;
    let claim = escape_claim::load_open(account, call.program)?;
    require(mint_record.mint().equals(word!(claim, mint)), PAYOUT_MISMATCH)?;
    // No batch came after the freeze: one that lists this nullifier listed it before the note existed.
    require(get!(claim, rank) != REFUND, INVALID_SPENT_PROOF)?;
    proof.require(word!(claim, nullifier), trees, ring)?;
    if get!(claim, rank) == WINDOW {
        mint_record.cancel_window_claim(get!(claim, amount));
    }
    set!(claim, state, CANCELLED);
    account.give(challenger, BOND)?;

    let mut event = Event::begin(ESCAPE_CHALLENGED);
    event.word(word!(claim, nullifier));
    event.word(challenger.key());
    event.emit(&config, call.program)
}
