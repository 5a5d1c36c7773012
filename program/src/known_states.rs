//! Owns the known states: a ring of 128 earlier note states and one of 32 earlier spent roots.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::Word;
use crate::create::Seeds;
use crate::error::{require, Fault, Outcome, UNKNOWN_SPENT_ROOT, UNKNOWN_STATE};
use crate::tree::NoteTree;

pub const RING_BYTES: usize = 7_200;
const KIND: u8 = 3;
const STATES: u32 = 128;
const STATE_BYTES: usize = 48;
const SPENT_ROOTS: u32 = 32;

/// A state is kept only when the newest kept one is this old, so 128 entries reach back at least 2,048 slots however
/// often the tree grows.
const SPACING_SLOTS: u64 = 16;

pub const SEED: &[u8] = b"ring";

/// Layout: 8 next u32 · 12 length u32 · 16 states (128 × slot, leaf_count, root) · 6,160 spent next u32 ·
/// 6,164 spent length u32 · 6,168 spent roots (32 × 32).
#[derive(Clone, Copy)]
pub struct KnownStates(Record<RING_BYTES>);

impl KnownStates {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        Ok(KnownStates(Record::load(account, KIND, &Seeds(&[SEED]), program)?))
    }

    pub fn begin(account: Account, bump: u8) -> Outcome {
        Record::<RING_BYTES>::begin(account, KIND, bump).map(|_| ())
    }

    fn state(self, index: u32) -> *mut u8 {
        unsafe { self.0.array::<16, 6_144>().add((index % STATES) as usize * STATE_BYTES) }
    }

    fn spent_root(self, index: u32) -> *mut u8 {
        unsafe { self.0.array::<6_168, 1_024>().add((index % SPENT_ROOTS) as usize * 32) }
    }

    /// Keeps the tree's present state, which the caller is about to leave in `slot`.
    pub fn keep(self, tree: NoteTree, slot: u64) {
        let (next, length) = (self.0.u32::<8>() % STATES, self.0.u32::<12>());
        if length > 0 {
            let newest = unsafe { (self.state(next + STATES - 1) as *const u64).read() };
            if slot.saturating_sub(newest) < SPACING_SLOTS {
                return;
            }
        }
        let entry = self.state(next);
        unsafe {
            (entry as *mut u64).write(slot);
            (entry.add(8) as *mut u64).write(tree.leaf_count());
            tree.root().copy_to(entry.add(16));
        }
        self.0.set_u32::<8>((next + 1) % STATES);
        self.0.set_u32::<12>(if length < STATES { length + 1 } else { STATES });
    }

    /// The cited state is the tree's present one or one of the ring.
    pub fn require_known(self, tree: NoteTree, leaf_count: u64, root: Word) -> Outcome {
        if leaf_count == tree.leaf_count() && root.equals(tree.root()) {
            return Ok(());
        }
        let length = self.0.u32::<12>();
        let mut index = 0;
        while index < length && index < STATES {
            let entry = self.state(index);
            let known = unsafe { (entry.add(8) as *const u64).read() };
            if known == leaf_count && root.equals(Word::at(unsafe { entry.add(16) })) {
                return Ok(());
            }
            index += 1;
        }
        Err(UNKNOWN_STATE)
    }

    /// Keeps a spent root that a batch is about to replace.
    pub fn keep_spent_root(self, root: Word) {
        let (next, length) = (self.0.u32::<6_160>() % SPENT_ROOTS, self.0.u32::<6_164>());
        root.copy_to(self.spent_root(next));
        self.0.set_u32::<6_160>((next + 1) % SPENT_ROOTS);
        self.0.set_u32::<6_164>(if length < SPENT_ROOTS { length + 1 } else { SPENT_ROOTS });
    }

    pub fn require_known_spent_root(self, current: Word, root: Word) -> Outcome {
        let length = self.0.u32::<6_164>();
        let mut index = 0;
        let mut known = root.equals(current);
        while !known && index < length && index < SPENT_ROOTS {
            known = root.equals(Word::at(self.spent_root(index)));
            index += 1;
        }
        require(known, UNKNOWN_SPENT_ROOT)
    }
}
