//! `settle`: lands one settlement batch.
use crate::batch::{Batch, OUTPUT_BYTES};
use crate::bytes::{Bytes32, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, SETTLED};
use crate::heap;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::payout::{Payout, PayoutMint, PayoutResult, PAID, PAYOUT_MINTS_MAX, RESULT_BYTES};
use crate::tree::NoteTree;

const FIXED_ACCOUNTS: usize = 5;
const MINT_ACCOUNTS: usize = 4;

struct Settlement<'a> {
    call: &'a Call<'a>,
    batch: Batch,
    config: Config,
    tree: NoteTree,
    ring: KnownStates,
    first_leaf_index: u64,
}

pub fn run(call: &Call, data: Reader) -> Outcome {
    let settlement = begin(call, Batch::read(data)?)?;
    let refunds = settle_payouts(&settlement)?;
    append_outputs(&settlement, refunds)?;
    record(&settlement)?;
    emit(&settlement)
}

/// Every check that does not concern payouts.
fn begin<'a>(call: &'a Call<'a>, batch: Batch) -> Result<Settlement<'a>, Fault> {
    let [signer, config, tree, ring, us] = call.first()?;
    us.require_key(call.program)?;
    let config = Config::load_writable(config, call.program)?;
    config.require_settlement_signer(signer)?;
    config.require_running()?;
    config.require_epoch(batch.epoch)?;
    let expected = get!(config.record, last_batch).checked_add(1).ok_or(OVERFLOW)?;
    require(batch.batch == expected, BATCH_OUT_OF_SEQUENCE)?;
    config.require_journal_forward(batch.journal_seq, batch.journal_head)?;
    tree.require_writable()?;
    ring.require_writable()?;
    let (tree, ring) = (NoteTree::load(tree, call.program)?, KnownStates::load(ring, call.program)?);
    ring.require_known(tree, batch.cited_leaf_count, batch.cited_root)?;
    batch.require_ascending()?;
    batch.require_spent_root(config.spent_root())?;
    let first_leaf_index = tree.leaf_count();
    Ok(Settlement { call, batch, config, tree, ring, first_leaf_index })
}

fn load_mints(settlement: &Settlement) -> Result<[Option<PayoutMint>; PAYOUT_MINTS_MAX], Fault> {
    let mut mints: [Option<PayoutMint>; PAYOUT_MINTS_MAX] = [None; PAYOUT_MINTS_MAX];
    let mut index = 0;
    while index < settlement.batch.mint_count && index < PAYOUT_MINTS_MAX {
        let mint = PayoutMint::load(settlement.call, FIXED_ACCOUNTS + index * MINT_ACCOUNTS)?;
        for earlier in mints.iter().flatten() {
            require(!earlier.record_account.is(mint.record_account), DUPLICATE_ACCOUNT)?;
        }
        mints[index] = Some(mint);
        index += 1;
    }
    Ok(mints)
}

/// Pays or refunds every payout, writes the results into the event buffer behind the outputs and the refund leaves
/// behind the output leaves; answers the number of refunds.
fn settle_payouts(settlement: &Settlement) -> Result<usize, Fault> {
    let Settlement { call, batch, .. } = settlement;
    let mints = load_mints(settlement)?;
    let mut data = batch.payouts;
    let mut at = FIXED_ACCOUNTS + batch.mint_count * MINT_ACCOUNTS;
    let (mut refunds, mut index) = (0, 0);
    let mut event = Event::at(results_offset(batch));
    while index < batch.payout_count {
        let payout = Payout::read(&mut data)?;
        let mint = mints.get(payout.mint).and_then(Option::as_ref).ok_or(PAYOUT_MISMATCH)?;
        if settle_payout(settlement, &payout, mint, at, batch.output_count + refunds, &mut event)? {
            refunds += 1;
        }
        at += payout.account_count();
        index += 1;
    }
    data.end()?;
    call.require_count(at)?;
    for mint in mints.iter().flatten() {
        mint.require_solvent()?;
    }
    Ok(refunds)
}

/// One payout; `place` is where its refund would stand in the append. Answers whether it was refunded.
fn settle_payout(
    settlement: &Settlement,
    payout: &Payout,
    mint: &PayoutMint,
    at: usize,
    place: usize,
    event: &mut Event,
) -> Result<bool, Fault> {
    let Settlement { call, batch, config, .. } = settlement;
    let destination = call.get(at)?;
    let key = mint.mint.key();
    let nullifier = if payout.is_exit() { payout.serve_exit(call, at, key, batch)? } else { Word::zero() };
    let outcome = mint.pay(destination, payout.amount, *config)?;
    let refunded = outcome != PAID;
    let (mut refund, mut refund_leaf_index): (Bytes32, u64) = (Bytes32::ZERO, 0);
    if refunded {
        refund_leaf_index = settlement.first_leaf_index + place as u64;
        refund = payout.refund(key, refund_leaf_index)?;
        Word::of(&refund).copy_to(leaf(place)?);
    }
    let (destination, refund) = (destination.key(), Word::of(&refund));
    payout.write(
        event,
        &PayoutResult { outcome, mint: key, destination, refund_leaf_index, refund, nullifier },
    );
    Ok(refunded)
}

fn leaf(place: usize) -> Result<*mut u8, Fault> {
    require(place < heap::LEAVES_MAX, INVALID_DATA)?;
    Ok(unsafe { heap::leaves().add(32 * place) })
}

/// Outputs first, then refund notes, which already stand in their places.
fn append_outputs(settlement: &Settlement, refunds: usize) -> Outcome {
    let Settlement { batch, tree, ring, .. } = settlement;
    let mut index = 0;
    while index < batch.output_count {
        batch.commitment(index).copy_to(leaf(index)?);
        index += 1;
    }
    let count = batch.output_count + refunds;
    if count > 0 {
        ring.keep(*tree, now()?.slot);
    }
    tree.append(heap::leaves(), count)
}

fn record(settlement: &Settlement) -> Outcome {
    let Settlement { batch, config, ring, .. } = settlement;
    if batch.nullifier_count > 0 {
        ring.keep_spent_root(config.spent_root());
        set_word!(config.record, spent_root, batch.spent_root);
        let spent =
            get!(config.record, spent_count).checked_add(batch.nullifier_count as u64).ok_or(OVERFLOW)?;
        set!(config.record, spent_count, spent);
    }
    set!(config.record, last_batch, batch.batch);
    config.set_journal(batch.journal_seq, batch.journal_head);
    Ok(())
}

/// Discriminator and kind, four u64, two roots and the counts; nullifiers and outputs follow, then payout results.
const EVENT_HEADER_BYTES: usize = 2 + 4 * 8 + 2 * 32 + 4;

fn results_offset(batch: &Batch) -> usize {
    EVENT_HEADER_BYTES + batch.nullifier_count * 32 + batch.output_count * OUTPUT_BYTES
}

fn emit(settlement: &Settlement) -> Outcome {
    let Settlement { call, batch, config, tree, .. } = settlement;
    let mut event = Event::begin(SETTLED);
    event.u64(batch.batch);
    event.u64(batch.epoch);
    event.u64(settlement.first_leaf_index);
    event.word(tree.root());
    event.word(config.spent_root());
    event.u64(get!(config.record, spent_count));
    event.u8(batch.nullifier_count as u8);
    event.u8(batch.output_count as u8);
    event.u8(batch.payout_count as u8);
    event.u8(0);
    event.bytes(batch.nullifiers, batch.nullifier_count * 32);
    event.bytes(batch.outputs, batch.output_count * OUTPUT_BYTES);
    event.skip(batch.payout_count * RESULT_BYTES);
    event.emit(config, call.program)
}
