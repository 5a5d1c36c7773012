//! Dispatches from the first byte of the data to one instruction.
use crate::bytes::Reader;
use crate::error::{Fault, Outcome, UNKNOWN_INSTRUCTION};
use crate::input::Call;

mod anchor;
mod announce;
mod authorize_restore;
mod challenge_escape;
mod claim_escape;
mod close_exit;
mod declare_outage;
mod deposit;
mod emit;
mod freeze;
mod grow_queue;
mod initialize;
mod open_attested_epoch;
mod opening;
mod pause;
mod pay;
mod pay_escape;
mod redirect_escape;
mod refuse_exit;
mod register_mint;
mod register_platform;
mod request_exit;
mod set_admin;
mod settle;

pub fn dispatch(call: &Call, mut data: Reader) -> Outcome {
    match data.u8().map_err(|_: Fault| UNKNOWN_INSTRUCTION)? {
        0 => initialize::run(call, data),
        1 => register_mint::run(call, data),
        2 => deposit::run(call, data),
        4 => settle::run(call, data),
        5 => anchor::run(call, data),
        6 => request_exit::run(call, data),
        7 => refuse_exit::run(call, data),
        8 => freeze::run(call, data),
        11 => set_admin::run(call, data),
        12 => authorize_restore::run(call, data),
        13 => pause::run(call, data, true),
        14 => pause::run(call, data, false),
        15 => pay::run(call, data),
        16 => grow_queue::run(call, data),
        17 => close_exit::run(call, data),
        18 => claim_escape::run(call, data),
        19 => challenge_escape::run(call, data),
        20 => pay_escape::run(call, data),
        21 => redirect_escape::run(call, data),
        22 => declare_outage::run(call, data),
        23 => announce::run(call, data),
        24 => register_platform::run(call, data),
        25 => open_attested_epoch::run(call, data),
        crate::event::EMIT => emit::run(call),
        _ => Err(UNKNOWN_INSTRUCTION),
    }
}
