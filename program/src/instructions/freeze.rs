//! `freeze`: an unserved, unrefused request past its deadline ends the vault; in a frozen vault it returns the bond.
use crate::bytes::{Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::{require, Outcome, DEADLINE_NOT_REACHED};
use crate::event::{Event, FROZEN};
use crate::exit_request::ExitRequest;
use crate::input::Call;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [config, account, bond_payer, us] = call.exactly()?;
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load_writable(config, call.program)?;
    let request = ExitRequest::load_any(account, call.program)?;
    let unix_s = now()?.unix_s;
    let first = !config.is_frozen();
    if first {
        require(unix_s > request.deadline_s(), DEADLINE_NOT_REACHED)?;
        set!(config.record, frozen, 1);
        set!(config.record, frozen_at_s, unix_s);
    }
    let nullifier = request.nullifier().load();
    request.return_bond(bond_payer)?;

    let mut event = Event::begin(FROZEN);
    event.word(Word::of(&nullifier));
    event.u64(get!(config.record, frozen_at_s));
    event.u8(u8::from(first));
    event.emit(&config, call.program)
}
