//! `pay`: closes entries of the payout queue by a transfer, or by the refund note where the destination cannot receive.
use crate::account::record::Record;
use crate::bytes::{Bytes32, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, PAID};
use crate::heap;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::note::deposit_commitment;
use crate::queue::{Entry, Queue};
use crate::token::payout_mint::{PayoutMint, TRANSFERRED};
use crate::tree::Trees;

const FIXED_ACCOUNTS: usize = 5;
/// Mint record, mint, vault token, token program, destination.
const ENTRY_ACCOUNTS: usize = 5;
const ENTRIES_MAX: usize = 8;
/// From here on anyone may turn an entry whose transfer fails into its note: 7 days.
const REFUND_AFTER_S: u64 = 604_800;

const REFUND_DUE: u8 = 9;

struct Payment<'a> {
    call: &'a Call<'a>,
    config: Config,
    trees: Trees,
    refund: bool,
}

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [config, tree, ring, queue, us] = call.first()?;
    us.require_key(call.program)?;
    let (refund, count) = (data.u8()?, data.u8()? as usize);
    require(refund <= 1 && count >= 1 && count <= ENTRIES_MAX, INVALID_DATA)?;
    call.require_count(FIXED_ACCOUNTS + count * ENTRY_ACCOUNTS)?;
    let config = Config::load(config, call.program)?;
    let trees = Trees::load_writable(tree, config)?;
    let ring = KnownStates::load_writable(ring, config)?;
    let queue = Queue::load_writable(queue, config)?;
    let payment = Payment { call, config, trees, refund: refund == 1 };
    let (mut refunds, mut index) = (0, 0);
    while index < count {
        let (place, number) = (data.u16()? as u32, data.u64()?);
        // Closed already, or taken by a later entry: the caller lost a race.
        if let Some(entry) = queue.open_entry(place, number) {
            refunds += close(&payment, entry, FIXED_ACCOUNTS + index * ENTRY_ACCOUNTS, refunds)?;
            queue.close(place);
        }
        index += 1;
    }
    data.end()?;
    if refunds == 0 {
        return Ok(());
    }
    ring.keep(trees)?;
    trees.append(heap::leaves(), refunds)
}

/// Pays or refunds an entry; `refunds` were refunded before it. Answers 1 for a refund, else 0.
fn close(payment: &Payment, entry: Record<Entry>, at: usize, refunds: usize) -> Result<usize, Fault> {
    let Payment { call, config, trees, .. } = payment;
    let (mint, destination) = (PayoutMint::load(call, at)?, call.get(at + 4)?);
    let matches =
        mint.record.mint().equals(word!(entry, mint)) && destination.key().equals(word!(entry, destination));
    require(matches, PAYOUT_MISMATCH)?;
    let (amount, inner) = (get!(entry, amount), word!(entry, inner));
    let outcome = if payment.refund {
        let due_s = get!(entry, queued_at_s).checked_add(REFUND_AFTER_S).ok_or(OVERFLOW)?;
        require(now()?.unix_s >= due_s, REFUND_NOT_DUE)?;
        REFUND_DUE
    } else {
        mint.pay(destination, amount, *config)?
    };
    let refunded = outcome != TRANSFERRED;
    // In a frozen vault a refund note ranks as its entry did: its amount stays queued until `pay_escape`.
    let stays_queued = refunded && config.is_frozen();
    if !stays_queued {
        mint.record.dequeue(amount)?;
    }
    let (mut note, mut leaf_index) = (Bytes32::ZERO, 0);
    if refunded {
        if !stays_queued {
            mint.record.raise_liabilities(amount)?;
        }
        leaf_index = trees.leaf_count() + refunds as u64;
        note = deposit_commitment(mint.record.mint(), amount, inner, leaf_index)?;
        Word::of(&note).copy_to(heap::leaf(refunds)?);
    }
    let mut event = Event::begin(PAID);
    event.u64(get!(entry, number));
    event.u8(get!(entry, kind));
    event.u8(outcome);
    event.word(mint.record.mint());
    event.u64(amount);
    event.word(destination.key());
    event.u64(leaf_index);
    event.word(Word::of(&note));
    event.word(inner);
    event.word(word!(entry, nullifier));
    event.emit(config, call.program)?;
    Ok(usize::from(refunded))
}
