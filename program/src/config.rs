//! Reads and writes the config account: the rights of each key, and the vault's progress.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::*;
use crate::hash::sha256;

pub const SEED: &[u8] = b"config";

#[repr(C)]
pub struct ConfigData {
    head: Head,
    pub paused: u8,
    pub frozen: u8,
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
    pub commit_seq: u64,
    pub commit_head: Bytes32,
    pending_admin: Bytes32,
    pending_admin_at_s: u64,
    pub pending_restore_at_s: u64,
    pub paused_at_s: u64,
    pub frozen_at_s: u64,
    pub venue: Bytes32,
    pub genesis_hash: Bytes32,
    pub outage_at_s: u64,
    pub outage_extra_s: u64,
    pub spent_count: u64,
    /// Leaves of the note tree after the last batch.
    pub settled_leaf_count: u64,
    pub tree: Bytes32,
    pub ring: Bytes32,
    pub queue: Bytes32,
    /// Leaves of the note tree at the freeze: later ones are refund notes.
    pub frozen_leaf_count: u64,
    _reserved: [u64; 3],
}

pub const CONFIG_BYTES: usize = core::mem::size_of::<ConfigData>();
const _: () = assert!(CONFIG_BYTES == 528);

impl Layout for ConfigData {
    const KIND: u8 = 1;
}

#[derive(Clone, Copy)]
pub struct Config {
    pub record: Record<ConfigData>,
    pub account: Account,
}

/// How long an announced action can be used once it is effective: 30 days.
const ANNOUNCEMENT_LIFE_S: u64 = 2_592_000;

/// An action that was announced long ago is void.
pub fn is_void(effective_at_s: u64, now_s: u64) -> bool {
    now_s.saturating_sub(effective_at_s) > ANNOUNCEMENT_LIFE_S
}

impl Config {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        let record = Record::of(account, program)?;
        record.require_derived(account, &Seeds(&[SEED]), program)?;
        Ok(Config { record, account })
    }

    pub fn load_writable(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_writable()?;
        Config::load(account, program)
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

    pub fn last_batch(self) -> u64 {
        get!(self.record, last_batch)
    }

    /// Latest second before a request with this deadline can freeze the vault. A declared outage extends the deadlines
    /// of requests that were open when it began.
    pub fn last_second(self, deadline_s: u64) -> Result<u64, Fault> {
        let outage_at_s = get!(self.record, outage_at_s);
        let requested_at_s = deadline_s.saturating_sub(self.exit_delay_s());
        let extended = outage_at_s != 0 && requested_at_s < outage_at_s && outage_at_s <= deadline_s;
        let extra_s = if extended { get!(self.record, outage_extra_s) } else { 0 };
        deadline_s.checked_add(extra_s).ok_or(OVERFLOW)
    }

    /// End of the claim window, exclusive, of a frozen vault.
    pub fn claim_window_end_s(self) -> Result<u64, Fault> {
        get!(self.record, frozen_at_s).checked_add(self.exit_delay_s()).ok_or(OVERFLOW)
    }

    /// First second in which a claim can be paid: each is open to challenges for an exit delay at least, and all of the
    /// window until they are paid.
    pub fn claim_due_s(self, claimed_at_s: u64) -> Result<u64, Fault> {
        let challengeable_from_s = claimed_at_s.max(self.claim_window_end_s()?);
        challengeable_from_s.checked_add(self.exit_delay_s()).ok_or(OVERFLOW)
    }

    /// Stores a newer journal position and ignores an older one; one position has one head.
    pub fn advance_journal(self, seq: u64, head: Word) -> Outcome {
        let stored = get!(self.record, journal_seq);
        if seq > stored {
            self.set_journal(seq, head);
        }
        require(seq != stored || head.equals(word!(self.record, journal_head)), JOURNAL_CONFLICT)
    }

    /// An opening may not precede the stored position. Before the first epoch the position has no head yet.
    pub fn require_journal_forward(self, seq: u64, head: Word) -> Outcome {
        let stored = get!(self.record, journal_seq);
        require(seq >= stored, JOURNAL_REGRESSED)?;
        let fresh = self.epoch() == 0;
        require(fresh || seq > stored || head.equals(word!(self.record, journal_head)), JOURNAL_CONFLICT)
    }

    /// An opening lands only on the position that its instance judged its journal by: the instance of a copied disk could
    /// otherwise pass, by the length of its journal alone, a position that another one stored meanwhile.
    pub fn require_journal_head(self, expected: Word) -> Outcome {
        require(expected.equals(word!(self.record, journal_head)), POSITION_OUTDATED)
    }

    /// Who states a newer position has the journal, so an announced restore is void: no new journal begins over one in use.
    pub fn set_journal(self, seq: u64, head: Word) {
        set!(self.record, journal_seq, seq);
        set_word!(self.record, journal_head, head);
        set!(self.record, pending_restore_at_s, 0);
    }

    /// Stores the venue id of the present generation.
    pub fn set_venue(self, program: Word) {
        let generation = get!(self.record, generation).to_le_bytes();
        let venue = sha256([
            b"tacit/venue/v1"[..].into(),
            word!(self.record, genesis_hash).into(),
            program.into(),
            self.account.key().into(),
            generation[..].into(),
        ]);
        set_word!(self.record, venue, Word::of(&venue));
    }

    pub fn pending_admin(self) -> (Bytes32, u64) {
        (word!(self.record, pending_admin).load(), get!(self.record, pending_admin_at_s))
    }

    pub fn set_pending_admin(self, key: Word, effective_at_s: u64) {
        set_word!(self.record, pending_admin, key);
        set!(self.record, pending_admin_at_s, effective_at_s);
    }
}
