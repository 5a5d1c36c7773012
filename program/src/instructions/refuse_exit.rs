//! `refuse_exit`: proof that a requested note is already spent; the bond goes to who proves it.
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::error::{require, Outcome, INVALID_SPENT_PROOF};
use crate::event::{Event, EXIT_REFUSED};
use crate::exit_request::ExitRequest;
use crate::field::require_reduced;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::note::spent_leaf;
use crate::tree::{root_from_path, PATH_BYTES};

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [refuser, config, ring, account, us] = call.exactly()?;
    let (cited_root, next_value, leaf_index) = (data.word()?, data.word()?, data.u64()?);
    let path = data.take(PATH_BYTES)?;
    data.end()?;
    us.require_key(call.program)?;
    refuser.require_signer()?;
    let config = Config::load(config, call.program)?;
    let ring = KnownStates::load(ring, call.program)?;
    let request = ExitRequest::load_any(account, call.program)?;
    ring.require_known_spent_root(config.spent_root(), cited_root)?;
    require_reduced(next_value)?;
    let nullifier = request.nullifier().load();
    let leaf = spent_leaf(Word::of(&nullifier), next_value)?;
    let root = root_from_path(Word::of(&leaf), leaf_index, path)?;
    require(Word::of(&root).equals(cited_root), INVALID_SPENT_PROOF)?;
    account.close(refuser)?;

    let mut event = Event::begin(EXIT_REFUSED);
    event.word(Word::of(&nullifier));
    event.word(refuser.key());
    event.emit(&config, call.program)
}
