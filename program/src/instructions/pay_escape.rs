//! `pay_escape`: pays a claim once its time to be challenged is over.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::escape_claim::{self, BOND, PAID, REFUND, WINDOW};
use crate::event::{Event, ESCAPE_PAID};
use crate::input::Call;
use crate::token::payout_mint::{PayoutMint, TRANSFERRED};

const MINT_AT: usize = 2;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [config, us, _, _, _, _, destination, account, bond_payer, owner] = call.exactly()?;
    let accepts_less = data.u8()?;
    data.end()?;
    require(accepts_less <= 1, INVALID_DATA)?;
    us.require_key(call.program)?;
    let config = Config::load(config, call.program)?;
    let mint = PayoutMint::load(call, MINT_AT)?;
    let claim = escape_claim::load_open(account, call.program)?;
    let matches =
        mint.record.mint().equals(word!(claim, mint)) && destination.key().equals(word!(claim, destination));
    require(matches, PAYOUT_MISMATCH)?;
    owner.require_key(word!(claim, owner))?;
    bond_payer.require_key(word!(claim, bond_payer))?;
    let now_s = now()?.unix_s;
    require(now_s >= config.claim_due_s(get!(claim, claimed_at_s))?, PAYMENT_NOT_DUE)?;

    let (rank, amount) = (get!(claim, rank), get!(claim, amount));
    mint.record.fix_window(mint.balance(), now_s);
    let paid = match rank {
        REFUND => amount,
        WINDOW => mint.record.window_share(amount),
        _ => amount.min(mint.record.left_for_late(mint.balance())),
    };
    // More may become available, so only its owner ends a late claim with less. The data says so, because an owner who
    // pays the transaction's fee signs in every instruction.
    if paid != amount && rank != WINDOW {
        require(accepts_less == 1, PAYMENT_SHORT)?;
        owner.require_signer()?;
    }
    require(mint.pay(destination, paid, config)? == TRANSFERRED, DESTINATION_UNUSABLE)?;
    if rank == REFUND {
        mint.record.dequeue(paid)?;
    } else {
        mint.record.pay_claim(paid, rank == WINDOW);
    }
    set!(claim, state, PAID);
    set!(claim, paid, paid);
    account.give(bond_payer, BOND)?;

    let mut event = Event::begin(ESCAPE_PAID);
    event.word(word!(claim, nullifier));
    event.word(word!(claim, mint));
    event.u64(amount);
    event.u64(paid);
    event.word(destination.key());
    event.emit(&config, call.program)
}
