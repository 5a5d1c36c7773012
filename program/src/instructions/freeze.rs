//! `freeze`: a request past its deadline, neither served nor refused, ends the vault.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, FROZEN};
use crate::exit_request::ExitRequest;
use crate::input::Call;
use crate::tree::Trees;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [config, tree, account, us] = call.exactly()?;
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load_writable(config, call.program)?;
    require(!config.is_frozen(), VAULT_FROZEN)?;
    let trees = Trees::load(tree, config)?;
    let request = ExitRequest::load(account, call.program)?;
    require(!request.is_served(), EXIT_SERVED)?;
    let unix_s = now()?.unix_s;
    require(unix_s > config.last_second(get!(request.0, deadline_s))?, DEADLINE_NOT_REACHED)?;
    set!(config.record, frozen, 1);
    set!(config.record, frozen_at_s, unix_s);
    set!(config.record, frozen_leaf_count, trees.leaf_count());

    let mut event = Event::begin(FROZEN);
    event.word(request.nullifier());
    event.u64(unix_s);
    event.emit(&config, call.program)
}
