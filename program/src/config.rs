//! Owns the config account: who may do what, and where the vault stands.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;

pub const CONFIG_BYTES: usize = 448;
const KIND: u8 = 1;

pub const SEED: &[u8] = b"config";

/// Layout: 3 paused · 4 frozen · 6 mint_count u16 · 8 generation · 16 epoch · 24 last_batch · 32 exit_delay_s ·
/// 40 journal_seq · 48 journal_head · 80 admin · 112 settlement_signer · 144 boot_nonce (16) · 160 compose_hash ·
/// 192 epoch_slot · 200 spent_count · 208 spent_root · 240 pending_signer · 272 effective_at_s · 280 pending_admin ·
/// 312 effective_at_s · 320 pending_restore_at_s · 328 paused_at_s · 336 frozen_at_s · 344 reserved.
#[derive(Clone, Copy)]
pub struct Config {
    pub record: Record<CONFIG_BYTES>,
    pub account: Account,
}

/// Where a pending key and its time stand; signer and admin share the code.
#[derive(Clone, Copy)]
pub enum Pending {
    Signer,
    Admin,
}

impl Config {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        Ok(Config { record: Record::load(account, KIND, &Seeds(&[SEED]), program)?, account })
    }

    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        Config::load(account, program)
    }

    pub fn begin(account: Account, bump: u8) -> Result<Self, Fault> {
        Ok(Config { record: Record::begin(account, KIND, bump)?, account })
    }

    pub fn bump(self) -> u8 {
        self.record.u8::<2>()
    }

    pub fn is_frozen(self) -> bool {
        self.record.u8::<4>() != 0
    }

    pub fn is_paused(self) -> bool {
        self.record.u8::<3>() != 0
    }

    pub fn require_running(self) -> Outcome {
        require(!self.is_frozen(), VAULT_FROZEN)?;
        require(!self.is_paused(), VAULT_PAUSED)
    }

    pub fn require_admin(self, signer: Account) -> Outcome {
        signer.require_signer()?;
        require(signer.key().equals(self.record.word::<80>()), NOT_ADMIN)
    }

    pub fn require_settlement_signer(self, signer: Account) -> Outcome {
        signer.require_signer()?;
        require(signer.key().equals(self.record.word::<112>()), NOT_SETTLEMENT_SIGNER)
    }

    pub fn epoch(self) -> u64 {
        self.record.u64::<16>()
    }

    /// A zero epoch means that no instance has opened one yet.
    pub fn require_epoch(self, epoch: u64) -> Outcome {
        require(epoch != 0 && epoch == self.epoch(), STALE_EPOCH)
    }

    pub fn exit_delay_s(self) -> u64 {
        self.record.u64::<32>()
    }

    pub fn spent_root(self) -> Word {
        self.record.word::<208>()
    }

    /// The journal only moves forward, and one position has one head.
    pub fn require_journal_forward(self, seq: u64, head: Word) -> Outcome {
        let stored = self.record.u64::<40>();
        require(seq >= stored, JOURNAL_REGRESSED)?;
        let fresh = self.epoch() == 0;
        require(fresh || seq > stored || head.equals(self.record.word::<48>()), JOURNAL_CONFLICT)
    }

    pub fn set_journal(self, seq: u64, head: Word) {
        self.record.set_u64::<40>(seq);
        self.record.set_word::<48>(head);
    }

    pub fn pending(self, which: Pending) -> (Bytes32, u64) {
        match which {
            Pending::Signer => (self.record.word::<240>().load(), self.record.u64::<272>()),
            Pending::Admin => (self.record.word::<280>().load(), self.record.u64::<312>()),
        }
    }

    pub fn set_pending(self, which: Pending, key: Word, effective_at_s: u64) {
        match which {
            Pending::Signer => {
                self.record.set_word::<240>(key);
                self.record.set_u64::<272>(effective_at_s);
            }
            Pending::Admin => {
                self.record.set_word::<280>(key);
                self.record.set_u64::<312>(effective_at_s);
            }
        }
    }

    pub fn apply_pending(self, which: Pending, key: Word) {
        match which {
            Pending::Signer => self.record.set_word::<112>(key),
            Pending::Admin => self.record.set_word::<80>(key),
        }
        self.set_pending(which, Word::zero(), 0);
    }
}
