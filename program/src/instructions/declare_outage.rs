//! `declare_outage`: extends the deadlines of open exit requests; the next one waits until these deadlines are over.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::input::Call;

const SPACING_MIN_S: u64 = 7_776_000;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [admin, config] = call.exactly()?;
    let extra_s = data.u64()?;
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    config.require_admin(admin)?;
    require(!config.is_frozen(), VAULT_FROZEN)?;
    require(extra_s >= 1 && extra_s <= 3 * config.exit_delay_s(), INVALID_DATA)?;
    let now_s = now()?.unix_s;
    // Config keeps one outage: an earlier end of this one would take its extension back. Zero before the first.
    let extended_s = config.exit_delay_s() + get!(config.record, outage_extra_s);
    let spacing_s = extended_s.max(SPACING_MIN_S);
    require(now_s >= get!(config.record, outage_at_s) + spacing_s, OUTAGE_TOO_SOON)?;
    set!(config.record, outage_at_s, now_s);
    set!(config.record, outage_extra_s, extra_s);
    Ok(())
}
