//! `pay`: closes entries of the payout queue by a transfer, or by the refund note where the destination cannot receive.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::{Bytes32, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, PAID};
use crate::heap;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::note::deposit_commitment;
use crate::queue::{Entry, Queue};
use crate::token::{read_vault, TokenAccount, TokenState};
use crate::transfer::Transfer;
use crate::tree::Trees;

const FIXED_ACCOUNTS: usize = 5;
/// Mint record, mint, vault token, token program, destination.
const ENTRY_ACCOUNTS: usize = 5;
const ENTRIES_MAX: usize = 8;
/// From here on anyone may turn an entry whose transfer fails into its note: 7 days.
const REFUND_AFTER_S: u64 = 604_800;
/// Accounts above are refunded: loading them may be what hinders other payments.
const DESTINATION_BYTES_MAX: usize = 1_024;

const TRANSFERRED: u8 = 0;
const DESTINATION_MISSING: u8 = 1;
const DESTINATION_WRONG_MINT: u8 = 2;
const DESTINATION_UNINITIALIZED: u8 = 3;
const DESTINATION_FROZEN: u8 = 4;
const DESTINATION_IS_VAULT: u8 = 5;
const DESTINATION_REFUSES: u8 = 6;
const VAULT_ACCOUNT_FROZEN: u8 = 7;
const DESTINATION_TOO_LARGE: u8 = 8;
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
    mint.record.dequeue(amount)?;
    let (mut note, mut leaf_index) = (Bytes32::ZERO, 0);
    if outcome != TRANSFERRED {
        mint.record.raise_liabilities(amount)?;
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
    Ok(usize::from(outcome != TRANSFERRED))
}

struct PayoutMint {
    record: MintRecord,
    mint: Account,
    vault: Account,
    token: TokenAccount,
    token_program: Account,
}

impl PayoutMint {
    fn load(call: &Call, at: usize) -> Result<Self, Fault> {
        let (record, mint) = (call.get(at)?, call.get(at + 1)?);
        let (vault, token_program) = (call.get(at + 2)?, call.get(at + 3)?);
        let record = MintRecord::load_writable(record, call.program)?;
        mint.require_key(record.mint())?;
        token_program.require_key(record.token_program())?;
        let token = read_vault(vault, record.vault_token(), token_program.key())?;
        Ok(PayoutMint { record, mint, vault, token, token_program })
    }

    /// The first reason why `destination` cannot receive, or `TRANSFERRED`.
    fn outcome(&self, destination: Account) -> u8 {
        let Some(account) = TokenAccount::read(destination, self.token_program.key()) else {
            return DESTINATION_MISSING;
        };
        if !account.mint().equals(self.mint.key()) {
            return DESTINATION_WRONG_MINT;
        }
        match account.state() {
            TokenState::Uninitialized => return DESTINATION_UNINITIALIZED,
            TokenState::Frozen => return DESTINATION_FROZEN,
            TokenState::Initialized => {}
        }
        if destination.is(self.vault) {
            return DESTINATION_IS_VAULT;
        }
        if destination.length() > DESTINATION_BYTES_MAX {
            return DESTINATION_TOO_LARGE;
        }
        if !account.accepts_transfers() {
            return DESTINATION_REFUSES;
        }
        if self.token.state() != TokenState::Initialized {
            return VAULT_ACCOUNT_FROZEN;
        }
        TRANSFERRED
    }

    /// Transfers `amount` if the destination can receive; answers the outcome.
    fn pay(&self, destination: Account, amount: u64, config: Config) -> Result<u8, Fault> {
        let outcome = self.outcome(destination);
        if outcome != TRANSFERRED {
            return Ok(outcome);
        }
        // Only now: sysvars and programs are never writable, and an entry for one must end as a refund.
        destination.require_writable()?;
        let (before, from) = (self.token.amount(), self.vault);
        require(before >= amount, INSOLVENT)?;
        let (mint, token_program, decimals) = (self.mint, self.token_program, self.record.decimals());
        Transfer { token_program, from, mint, to: destination, amount, decimals }.from_vault(config)?;
        require(before.checked_sub(amount) == Some(self.token.amount()), TRANSFER_MISMATCH)?;
        Ok(TRANSFERRED)
    }
}
