//! `refuse_exit`: proof that a batch spent the requested note; the bond goes to who proves it.
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, EXIT_REFUSED};
use crate::exit_request::ExitRequest;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::tree::{spent_leaf, spent_root_from_path, Trees, PATH_BYTES};

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [refuser, config, tree, ring, account, us] = call.exactly()?;
    let (cited_root, batch, count) = (data.word()?, data.u64()?, data.u8()? as usize);
    let nullifiers = data.take(32 * count)?;
    let path = data.take(PATH_BYTES)?;
    data.end()?;
    us.require_key(call.program)?;
    refuser.require_signer()?;
    let config = Config::load(config, call.program)?;
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    let request = ExitRequest::load_writable(account, call.program)?;
    require(!request.is_served(), EXIT_SERVED)?;
    ring.require_known_spent_root(trees, cited_root)?;
    let index = batch.checked_sub(1).ok_or(INVALID_SPENT_PROOF)?;
    let root = spent_root_from_path(spent_leaf(batch, nullifiers, count), index, path)?;
    let nullifier = request.nullifier().load();
    let spent =
        (0..count).any(|at| Word::at(unsafe { nullifiers.add(32 * at) }).equals(Word::of(&nullifier)));
    require(spent && Word::of(&root).equals(cited_root), INVALID_SPENT_PROOF)?;
    account.close(refuser)?;

    let mut event = Event::begin(EXIT_REFUSED);
    event.word(Word::of(&nullifier));
    event.word(refuser.key());
    event.emit(&config, call.program)
}
