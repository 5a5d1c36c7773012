//! Owns the config account: who may do what, and where the vault stands.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;

pub const SEED: &[u8] = b"config";

#[repr(C)]
pub struct ConfigData {
    head: Head,
    pub paused: u8,
    pub frozen: u8,
    _zero: u8,
    pub mint_count: u16,
    pub generation: u64,
    pub epoch: u64,
    pub last_batch: u64,
    pub exit_delay_s: u64,
    journal_seq: u64,
    journal_head: Bytes32,
    pub admin: Bytes32,
    pub settlement_signer: Bytes32,
    pub boot_nonce: [u8; 16],
    pub compose_hash: Bytes32,
    pub epoch_slot: u64,
    pub spent_count: u64,
    pub spent_root: Bytes32,
    pending_signer: Bytes32,
    pending_signer_at_s: u64,
    pending_admin: Bytes32,
    pending_admin_at_s: u64,
    pub pending_restore_at_s: u64,
    pub paused_at_s: u64,
    pub frozen_at_s: u64,
    _reserved: [u64; 13],
}

const _: () = assert!(core::mem::size_of::<ConfigData>() == 448);

impl Layout for ConfigData {
    const KIND: u8 = 1;
}

#[derive(Clone, Copy)]
pub struct Config {
    pub record: Record<ConfigData>,
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
        Ok(Config { record: Record::load(account, &Seeds(&[SEED]), program)?, account })
    }

    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        Config::load(account, program)
    }

    pub fn begin(account: Account, bump: u8) -> Result<Self, Fault> {
        Ok(Config { record: Record::begin(account, bump)?, account })
    }

    pub fn bump(self) -> u8 {
        get!(self.record, head.bump)
    }

    pub fn is_frozen(self) -> bool {
        get!(self.record, frozen) != 0
    }

    pub fn is_paused(self) -> bool {
        get!(self.record, paused) != 0
    }

    pub fn require_running(self) -> Outcome {
        require(!self.is_frozen(), VAULT_FROZEN)?;
        require(!self.is_paused(), VAULT_PAUSED)
    }

    pub fn require_admin(self, signer: Account) -> Outcome {
        signer.require_signer()?;
        require(signer.key().equals(word!(self.record, admin)), NOT_ADMIN)
    }

    pub fn require_settlement_signer(self, signer: Account) -> Outcome {
        signer.require_signer()?;
        require(signer.key().equals(word!(self.record, settlement_signer)), NOT_SETTLEMENT_SIGNER)
    }

    pub fn epoch(self) -> u64 {
        get!(self.record, epoch)
    }

    /// A zero epoch means that no instance has opened one yet.
    pub fn require_epoch(self, epoch: u64) -> Outcome {
        require(epoch != 0 && epoch == self.epoch(), STALE_EPOCH)
    }

    pub fn exit_delay_s(self) -> u64 {
        get!(self.record, exit_delay_s)
    }

    pub fn spent_root(self) -> Word {
        word!(self.record, spent_root)
    }

    /// The journal only moves forward, and one position has one head.
    pub fn require_journal_forward(self, seq: u64, head: Word) -> Outcome {
        let stored = get!(self.record, journal_seq);
        require(seq >= stored, JOURNAL_REGRESSED)?;
        let fresh = self.epoch() == 0;
        require(fresh || seq > stored || head.equals(word!(self.record, journal_head)), JOURNAL_CONFLICT)
    }

    pub fn set_journal(self, seq: u64, head: Word) {
        set!(self.record, journal_seq, seq);
        set_word!(self.record, journal_head, head);
    }

    pub fn pending(self, which: Pending) -> (Bytes32, u64) {
        match which {
            Pending::Signer => {
                (word!(self.record, pending_signer).load(), get!(self.record, pending_signer_at_s))
            }
            Pending::Admin => {
                (word!(self.record, pending_admin).load(), get!(self.record, pending_admin_at_s))
            }
        }
    }

    pub fn set_pending(self, which: Pending, key: Word, effective_at_s: u64) {
        match which {
            Pending::Signer => {
                set_word!(self.record, pending_signer, key);
                set!(self.record, pending_signer_at_s, effective_at_s);
            }
            Pending::Admin => {
                set_word!(self.record, pending_admin, key);
                set!(self.record, pending_admin_at_s, effective_at_s);
            }
        }
    }

    pub fn apply_pending(self, which: Pending, key: Word) {
        match which {
            Pending::Signer => set_word!(self.record, settlement_signer, key),
            Pending::Admin => set_word!(self.record, admin, key),
        }
        self.set_pending(which, Word::zero(), 0);
    }
}
