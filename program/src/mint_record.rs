//! Reads and writes the record of a registered mint: the vault's debts in it.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;

pub const SEED: &[u8] = b"mint";
pub const VAULT_SEED: &[u8] = b"vault";

#[repr(C)]
pub struct MintRecordData {
    head: Head,
    pub vault_bump: u8,
    pub decimals: u8,
    pub freezable: u8,
    pub mint_index: u16,
    pub mint: Bytes32,
    pub token_program: Bytes32,
    pub vault_token: Bytes32,
    pub min_deposit: u64,
    pub min_exit: u64,
    /// Base units owed to notes and accrued fees.
    liabilities: u64,
    /// Base units owed to entries of the payout queue, and in a frozen vault to the refund notes they became.
    queued: u64,
    /// Amounts of all window claims not cancelled before `window_fixed_at_s`: a u128, low half first. Notes that a stolen
    /// settlement key forged may claim more than a u64.
    window_total: [u64; 2],
    /// Balance less `queued` at the first payment.
    window_base: u64,
    /// Part of the base that window claims wait for.
    window_owed: u64,
    /// Second of the first payment; 0 before.
    window_fixed_at_s: u64,
    _reserved: [u64; 6],
}

pub const MINT_RECORD_BYTES: usize = core::mem::size_of::<MintRecordData>();
const _: () = assert!(MINT_RECORD_BYTES == 224);

impl Layout for MintRecordData {
    const KIND: u8 = 4;
}

#[derive(Clone, Copy)]
pub struct MintRecord(pub Record<MintRecordData>);

impl MintRecord {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        let record = MintRecord(Record::of(account, program)?);
        let mint = record.mint().load();
        record.0.require_derived(account, &Seeds(&[SEED, &mint.0]), program)?;
        Ok(record)
    }

    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        MintRecord::load(account, program)
    }

    pub fn decimals(self) -> u8 {
        get!(self.0, decimals)
    }

    pub fn mint(self) -> Word {
        word!(self.0, mint)
    }

    pub fn token_program(self) -> Word {
        word!(self.0, token_program)
    }

    pub fn vault_token(self) -> Word {
        word!(self.0, vault_token)
    }

    pub fn min_deposit(self) -> u64 {
        get!(self.0, min_deposit)
    }

    pub fn min_exit(self) -> u64 {
        get!(self.0, min_exit)
    }

    pub fn liabilities(self) -> u64 {
        get!(self.0, liabilities)
    }

    pub fn queued(self) -> u64 {
        get!(self.0, queued)
    }

    pub fn raise_liabilities(self, amount: u64) -> Outcome {
        set!(self.0, liabilities, self.liabilities().checked_add(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// A payout leaves the liabilities for the queue.
    pub fn enqueue(self, amount: u64) -> Outcome {
        set!(self.0, liabilities, self.liabilities().checked_sub(amount).ok_or(PAYOUT_ABOVE_LIABILITIES)?);
        set!(self.0, queued, self.queued().checked_add(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// A queued payout was paid or became a note.
    pub fn dequeue(self, amount: u64) -> Outcome {
        set!(self.0, queued, self.queued().checked_sub(amount).ok_or(OVERFLOW)?);
        Ok(())
    }

    /// The vault's balance covers notes, accrued fees and queued payouts.
    pub fn require_solvent(self, balance: u64) -> Outcome {
        let owed = self.liabilities().checked_add(self.queued()).ok_or(OVERFLOW)?;
        require(balance >= owed, INSOLVENT)
    }

    fn window_total(self) -> u128 {
        let [low, high] = get!(self.0, window_total);
        u128::from(high) << 64 | u128::from(low)
    }

    fn set_window_total(self, total: u128) {
        set!(self.0, window_total, [total as u64, (total >> 64) as u64]);
    }

    pub fn add_window_claim(self, amount: u64) {
        self.set_window_total(self.window_total() + u128::from(amount));
    }

    /// Before the first payment a cancelled claim leaves the total, afterwards its share is left for late claims.
    pub fn cancel_window_claim(self, amount: u64) {
        if get!(self.0, window_fixed_at_s) == 0 {
            self.set_window_total(self.window_total() - u128::from(amount));
        } else {
            self.lower_window_owed(self.window_share(amount));
        }
    }

    /// The first payment fixes the share of window claims. Queued payouts come before all claims.
    pub fn fix_window(self, balance: u64, now_s: u64) {
        if get!(self.0, window_fixed_at_s) != 0 {
            return;
        }
        let base = balance.saturating_sub(self.queued());
        set!(self.0, window_base, base);
        set!(self.0, window_owed, u128::from(base).min(self.window_total()) as u64);
        set!(self.0, window_fixed_at_s, now_s);
    }

    /// `floor(amount x min(base, total) / total)` for a claim of at least 1 that the total contains.
    pub fn window_share(self, amount: u64) -> u64 {
        let total = self.window_total();
        let shared = u128::from(get!(self.0, window_base)).min(total) as u64;
        // One bit of `shared` after the other; the rest is below the total, and the total below 2^127.
        let (mut share, mut rest, mut bit) = (0, 0, 64);
        while bit > 0 {
            bit -= 1;
            let added = if shared >> bit & 1 == 1 { u128::from(amount) } else { 0 };
            (share, rest) = (2 * share, 2 * rest);
            for part in [0, added] {
                rest += part;
                if rest >= total {
                    rest -= total;
                    share += 1;
                }
            }
        }
        share
    }

    /// The amount for late claims. Shares that were rounded down leave less than one base unit for each window claim.
    pub fn left_for_late(self, balance: u64) -> u64 {
        balance.saturating_sub(self.queued()).saturating_sub(get!(self.0, window_owed))
    }

    /// Forged notes may claim more than the liabilities.
    pub fn pay_claim(self, paid: u64, from_window: bool) {
        set!(self.0, liabilities, self.liabilities().saturating_sub(paid));
        if from_window {
            self.lower_window_owed(paid);
        }
    }

    fn lower_window_owed(self, share: u64) {
        set!(self.0, window_owed, get!(self.0, window_owed) - share);
    }
}
