//! `settle`: lands one settlement batch. Nothing that a stranger can change is read here: payouts become queue entries.
use crate::account::Account;
use crate::batch::{Batch, Payout, OUTPUT_BYTES};
use crate::bytes::{Reader, Word};
use crate::clock::{now, Now};
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, SETTLED};
use crate::exit_request::ExitRequest;
use crate::heap;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::queue::{NewEntry, Queue};
use crate::tree::{spent_leaf, Trees};

const FIXED_ACCOUNTS: usize = 5;
/// Fields of a payout in the event: number, place, kind, mint, amount, destination, inner, nullifier, served.
const PAYOUT_EVENT_BYTES: usize = 8 + 2 + 1 + 32 + 8 + 3 * 32 + 1;

struct Settlement<'a> {
    call: &'a Call<'a>,
    batch: Batch,
    config: Config,
    trees: Trees,
    ring: KnownStates,
    first_leaf_index: u64,
}

pub fn run(call: &Call, data: Reader) -> Outcome {
    let settlement = begin(call, Batch::read(data)?)?;
    queue_payouts(&settlement)?;
    append(&settlement)?;
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
    let expected = config.last_batch().checked_add(1).ok_or(OVERFLOW)?;
    require(batch.batch == expected, BATCH_OUT_OF_SEQUENCE)?;
    config.advance_journal(batch.journal_seq, batch.journal_head)?;
    let trees = Trees::load_writable(tree, config)?;
    let ring = KnownStates::load_writable(ring, config)?;
    ring.require_known(trees, batch.cited_leaf_count, batch.cited_root)?;
    let first_leaf_index = trees.leaf_count();
    Ok(Settlement { call, batch, config, trees, ring, first_leaf_index })
}

/// Queues every payout and writes it into the event buffer, behind the outputs. The queue's account and those of
/// mints and exits follow the fixed ones; without payouts there are none.
fn queue_payouts(settlement: &Settlement) -> Outcome {
    let Settlement { call, batch, config, .. } = settlement;
    let mut data = batch.payouts;
    if batch.payout_count == 0 {
        data.end()?;
        return call.require_count(FIXED_ACCOUNTS);
    }
    let queue = Queue::load_writable(call.get(FIXED_ACCOUNTS)?, *config)?;
    let now = now()?;
    let first_mint = FIXED_ACCOUNTS + 1;
    let mut next_exit = first_mint + batch.mint_count;
    let mut event = Event::at(payouts_offset(batch));
    let mut index = 0;
    while index < batch.payout_count {
        let payout = Payout::read(&mut data)?;
        require(payout.mint < batch.mint_count, PAYOUT_MISMATCH)?;
        let mint = MintRecord::load_writable(call.get(first_mint + payout.mint)?, call.program)?;
        let mut exit = None;
        if payout.is_exit() {
            let nullifier = batch.nullifier(payout.nullifier)?;
            exit = Some((nullifier, call.get(next_exit)?));
            next_exit += 1;
        }
        queue_payout(&payout, exit, (queue, mint, call.program), &now, &mut event)?;
        index += 1;
    }
    data.end()?;
    call.require_count(next_exit)
}

/// `exit`: nullifier, and the account where its request should be.
fn queue_payout(
    payout: &Payout,
    exit: Option<(Word, Account)>,
    (queue, mint, program): (Queue, MintRecord, Word),
    now: &Now,
    event: &mut Event,
) -> Outcome {
    let Payout { kind, amount, destination, inner, .. } = *payout;
    let nullifier = exit.map_or(Word::zero(), |(nullifier, _)| nullifier);
    let entry = NewEntry { kind, mint: mint.mint(), amount, destination, inner, nullifier };
    if let Some((_, account)) = exit {
        serve(account, &entry, program)?;
    }
    mint.enqueue(amount)?;
    let (place, number) = queue.push(&entry, now)?;
    event.u64(number);
    event.u16(place as u16);
    event.u8(kind);
    event.word(entry.mint);
    event.u64(amount);
    event.word(destination);
    event.word(inner);
    event.word(nullifier);
    event.u8(u8::from(exit.is_some()));
    Ok(())
}

/// Marks the open request that asks for exactly this payout; without one the batch is rejected, so an exit is paid only
/// where its owner asked. Once a request is finalized its owner and strangers cannot use that to stop a batch: an open
/// request never changes, and it disappears by `refuse_exit` alone, which needs its nullifier in the spent log, or by
/// `close_exit` in a frozen vault, where `settle` has ended. Only `settle` makes it served.
fn serve(account: Account, entry: &NewEntry, program: Word) -> Outcome {
    account.require_writable()?;
    let request = ExitRequest::load(account, program).or(Err(PAYOUT_MISMATCH))?;
    let record = request.0;
    let same = !request.is_served()
        && request.nullifier().equals(entry.nullifier)
        && word!(record, mint).equals(entry.mint)
        && get!(record, amount) == entry.amount
        && word!(record, destination).equals(entry.destination)
        && word!(record, refund_inner).equals(entry.inner);
    require(same, PAYOUT_MISMATCH)?;
    set!(record, served, 1);
    Ok(())
}

/// Appends the outputs to the note tree and the batch to the spent log.
fn append(settlement: &Settlement) -> Outcome {
    let Settlement { batch, config, trees, ring, .. } = settlement;
    ring.keep(*trees)?;
    let mut index = 0;
    while index < batch.output_count {
        batch.commitment(index).copy_to(heap::leaf(index)?);
        index += 1;
    }
    trees.append(heap::leaves(), batch.output_count)?;
    let leaf = spent_leaf(batch.batch, batch.nullifiers, batch.nullifier_count);
    trees.append_spent(config.last_batch(), leaf)
}

fn record(settlement: &Settlement) -> Outcome {
    let Settlement { batch, config, trees, .. } = settlement;
    let spent = get!(config.record, spent_count).checked_add(batch.nullifier_count as u64).ok_or(OVERFLOW)?;
    set!(config.record, spent_count, spent);
    set!(config.record, last_batch, batch.batch);
    set!(config.record, settled_leaf_count, trees.leaf_count());
    Ok(())
}

/// Discriminator and kind, four u64, two roots and the counts; nullifiers, outputs and payouts follow.
const EVENT_HEADER_BYTES: usize = 2 + 4 * 8 + 2 * 32 + 3;

fn payouts_offset(batch: &Batch) -> usize {
    EVENT_HEADER_BYTES + batch.nullifier_count * 32 + batch.output_count * OUTPUT_BYTES
}

fn emit(settlement: &Settlement) -> Outcome {
    let Settlement { call, batch, config, trees, .. } = settlement;
    let mut event = Event::begin(SETTLED);
    event.u64(batch.batch);
    event.u64(batch.epoch);
    event.u64(settlement.first_leaf_index);
    event.word(trees.root());
    event.word(trees.spent_root());
    event.u64(get!(config.record, spent_count));
    event.u8(batch.nullifier_count as u8);
    event.u8(batch.output_count as u8);
    event.u8(batch.payout_count as u8);
    event.bytes(batch.nullifiers, batch.nullifier_count * 32);
    event.bytes(batch.outputs, batch.output_count * OUTPUT_BYTES);
    event.skip(batch.payout_count * PAYOUT_EVENT_BYTES);
    event.emit(config, call.program)
}
