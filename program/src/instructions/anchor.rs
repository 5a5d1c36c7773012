//! `anchor`: stores the journal position, and with a limit of time also the commit of a batch's inputs.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::input::Call;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [signer, config] = call.exactly()?;
    let (epoch, seq, head) = (data.u64()?, data.u64()?, data.word()?);
    let (not_after_slot, not_after_s) = (data.u64()?, data.u64()?);
    data.end()?;
    require((not_after_slot == 0) == (not_after_s == 0), INVALID_DATA)?;
    let config = Config::load_writable(config, call.program)?;
    config.require_settlement_signer(signer)?;
    config.require_epoch(epoch)?;
    config.advance_journal(seq, head)?;
    if not_after_slot == 0 {
        return Ok(());
    }
    let now = now()?;
    require(now.slot <= not_after_slot && now.unix_s <= not_after_s, ANCHOR_EXPIRED)?;
    let stored = get!(config.record, commit_seq);
    require(seq >= stored, COMMIT_REGRESSED)?;
    require(seq > stored || head.equals(word!(config.record, commit_head)), JOURNAL_CONFLICT)?;
    set!(config.record, commit_seq, seq);
    set_word!(config.record, commit_head, head);
    Ok(())
}
