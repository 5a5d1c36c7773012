//! `anchor`: stores the journal position when nothing settles.
use crate::bytes::Reader;
use crate::config::Config;
use crate::error::Outcome;
use crate::input::Call;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [signer, config] = call.exactly()?;
    let (epoch, seq, head) = (data.u64()?, data.u64()?, data.word()?);
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    config.require_settlement_signer(signer)?;
    config.require_epoch(epoch)?;
    config.require_journal_forward(seq, head)?;
    config.set_journal(seq, head);
    Ok(())
}
