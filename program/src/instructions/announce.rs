//! `announce`: records that later openings may rest on, effective twice the exit delay later, so users can leave first. A
//! change that admits less (revoking, a raised minimum) holds at once, and so does any before the first epoch.
use crate::attest::announcement::{Announcement, Topic, ANNOUNCEMENT_BYTES, VALUE_BYTES};
use crate::bytes::{is_blank, Reader};
use crate::clock::now;
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::event::{Event, ANNOUNCED};
use crate::input::Call;
use core::ptr::null;

const ANNOUNCE: u8 = 0;
const CANCEL: u8 = 1;
const REVOKE: u8 = 2;
const RAISE: u8 = 3;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [admin, payer, config, account, system, us] = call.exactly()?;
    let action = data.u8()?;
    let topic = Topic { list: data.u8()?, id: data.word()? };
    let value = data.take(VALUE_BYTES)?;
    data.end()?;
    us.require_key(call.program)?;
    system.require_system_program()?;
    let config = Config::load(config, call.program)?;
    config.require_admin(admin)?;
    topic.require_form()?;
    account.require_writable()?;
    let now_s = now()?.unix_s;

    let record = if action == ANNOUNCE && account.is_vacant() {
        let (name, id) = (topic.name(), topic.id.load());
        let seeds = Seeds(&[&name, &id.0]);
        let new = NewAccount { seeds, size: ANNOUNCEMENT_BYTES, owner: call.program, bond: 0 };
        Announcement::begin(account, topic, create(payer, account, &new, call.program)?)
    } else {
        require(!account.is_vacant(), NOT_ANNOUNCED)?;
        Announcement::load(account, topic, call.program)?
    };
    record.bring_forward(now_s);
    require(action == ANNOUNCE || action == RAISE || is_blank(value, VALUE_BYTES), INVALID_DATA)?;
    let mut effective_at_s = now_s;
    match action {
        ANNOUNCE => {
            topic.require_value(value)?;
            if config.epoch() == 0 {
                record.set_value(value, now_s);
            } else {
                let delay_s = config.exit_delay_s().checked_add(config.exit_delay_s()).ok_or(OVERFLOW)?;
                effective_at_s = now_s.checked_add(delay_s).ok_or(OVERFLOW)?;
                record.set_next(value, effective_at_s);
            }
        }
        CANCEL => {
            require(record.has_next(), NOTHING_PENDING)?;
            record.set_next(null(), 0);
        }
        REVOKE => {
            require(record.value().is_some() || record.has_next(), NOT_ANNOUNCED)?;
            record.set_value(null(), 0);
            record.set_next(null(), 0);
        }
        RAISE => {
            topic.require_value(value)?;
            let old = record.value().ok_or(NOT_ANNOUNCED)?;
            topic.require_raised(old, value)?;
            record.set_value(value, now_s);
        }
        _ => return Err(INVALID_DATA),
    }

    let mut event = Event::begin(ANNOUNCED);
    event.u8(action);
    event.u8(topic.list);
    event.word(topic.id);
    event.bytes(value, VALUE_BYTES);
    event.u64(effective_at_s);
    event.emit(&config, call.program)
}
