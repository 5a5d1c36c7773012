//! `grow_queue`: anyone pays the rent for 60 more entries of the payout queue.
use crate::bytes::Reader;
use crate::clock::rent_exempt_minimum;
use crate::config::Config;
use crate::create::fund;
use crate::error::Outcome;
use crate::input::Call;
use crate::queue::Queue;

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [payer, config, account, system] = call.exactly()?;
    data.end()?;
    payer.require_signer()?;
    payer.require_writable()?;
    system.require_system_program()?;
    let config = Config::load(config, call.program)?;
    let queue = Queue::load_writable(account, config)?;
    let rent = rent_exempt_minimum(queue.grown_bytes()? as u64)?;
    fund(payer, account, rent.saturating_sub(account.lamports()))?;
    queue.grow()
}
