//! `close_exit`: returns rent and bond of a served request, and in a frozen vault of every request.
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::error::{require, Outcome, EXIT_OPEN};
use crate::event::{Event, EXIT_CLOSED};
use crate::exit_request::ExitRequest;
use crate::input::Call;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [config, account, bond_payer, us] = call.exactly()?;
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load(config, call.program)?;
    let request = ExitRequest::load_writable(account, call.program)?;
    require(request.is_served() || config.is_frozen(), EXIT_OPEN)?;
    bond_payer.require_key(word!(request.0, bond_payer))?;
    let (nullifier, served) = (request.nullifier().load(), request.is_served());
    account.close(bond_payer)?;

    let mut event = Event::begin(EXIT_CLOSED);
    event.word(Word::of(&nullifier));
    event.u8(u8::from(served));
    event.emit(&config, call.program)
}
