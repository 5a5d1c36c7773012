//! `refuse_exit`: proof that a batch spent the requested note; the bond goes to who proves it.
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, EXIT_REFUSED};
use crate::exit_request::ExitRequest;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::tree::spent_proof::SpentProof;
use crate::tree::Trees;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [refuser, config, tree, ring, account, us] = call.exactly()?;
    let proof = SpentProof::read(data)?;
    us.require_key(call.program)?;
    refuser.require_signer()?;
    let config = Config::load(config, call.program)?;
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    let request = ExitRequest::load_writable(account, call.program)?;
    require(!request.is_served(), EXIT_SERVED)?;
    let nullifier = request.nullifier().load();
    proof.require(Word::of(&nullifier), trees, ring)?;
    account.close(refuser)?;

    let mut event = Event::begin(EXIT_REFUSED);
    event.word(Word::of(&nullifier));
    event.word(refuser.key());
    event.emit(&config, call.program)
}
