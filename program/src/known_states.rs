//! Owns the known states: a ring of 128 earlier note states and one of 32 earlier spent roots.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::create::Seeds;
use crate::error::{require, Fault, Outcome, UNKNOWN_SPENT_ROOT, UNKNOWN_STATE};
use crate::tree::NoteTree;

const STATES: u32 = 128;
const SPENT_ROOTS: u32 = 32;

/// A state is kept only when the newest kept one is this old, so 128 entries reach back at least 2,048 slots however
/// often the tree grows.
const SPACING_SLOTS: u64 = 16;

pub const SEED: &[u8] = b"ring";

#[repr(C)]
pub struct RingData {
    head: Head,
    _zeros: [u8; 5],
    next: u32,
    length: u32,
    states: [State; STATES as usize],
    spent_next: u32,
    spent_length: u32,
    spent_roots: [Bytes32; SPENT_ROOTS as usize],
    _reserved: u64,
}

/// `slot` is when the state was left.
#[repr(C)]
struct State {
    slot: u64,
    leaf_count: u64,
    root: Bytes32,
}

pub const RING_BYTES: usize = core::mem::size_of::<RingData>();
const _: () = assert!(RING_BYTES == 7_200);

impl Layout for RingData {
    const KIND: u8 = 3;
}

#[derive(Clone, Copy)]
pub struct KnownStates(Record<RingData>);

impl KnownStates {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        Ok(KnownStates(Record::load(account, &Seeds(&[SEED]), program)?))
    }

    pub fn begin(account: Account, bump: u8) -> Outcome {
        Record::<RingData>::begin(account, bump).map(|_| ())
    }

    fn state(self, index: u32) -> *mut State {
        let states = field!(self.0, states) as *mut State;
        unsafe { states.add((index % STATES) as usize) }
    }

    fn spent_root(self, index: u32) -> *mut u8 {
        let roots = field!(self.0, spent_roots) as *mut u8;
        unsafe { roots.add((index % SPENT_ROOTS) as usize * 32) }
    }

    /// Keeps the tree's present state, which the caller is about to leave in `slot`.
    pub fn keep(self, tree: NoteTree, slot: u64) {
        let (next, length) = (get!(self.0, next) % STATES, get!(self.0, length));
        if length > 0 {
            let newest = unsafe { (*self.state(next + STATES - 1)).slot };
            if slot.saturating_sub(newest) < SPACING_SLOTS {
                return;
            }
        }
        let entry = self.state(next);
        unsafe {
            (*entry).slot = slot;
            (*entry).leaf_count = tree.leaf_count();
            tree.root().copy_to((*entry).root.0.as_mut_ptr());
        }
        set!(self.0, next, (next + 1) % STATES);
        set!(self.0, length, if length < STATES { length + 1 } else { STATES });
    }

    /// The cited state is the tree's present one or one of the ring.
    pub fn require_known(self, tree: NoteTree, leaf_count: u64, root: Word) -> Outcome {
        if leaf_count == tree.leaf_count() && root.equals(tree.root()) {
            return Ok(());
        }
        let length = get!(self.0, length);
        let mut index = 0;
        while index < length && index < STATES {
            let entry = self.state(index);
            let (known, at) = unsafe { ((*entry).leaf_count, (*entry).root.0.as_ptr()) };
            if known == leaf_count && root.equals(Word::at(at)) {
                return Ok(());
            }
            index += 1;
        }
        Err(UNKNOWN_STATE)
    }

    /// Keeps a spent root that a batch is about to replace.
    pub fn keep_spent_root(self, root: Word) {
        let (next, length) = (get!(self.0, spent_next) % SPENT_ROOTS, get!(self.0, spent_length));
        root.copy_to(self.spent_root(next));
        set!(self.0, spent_next, (next + 1) % SPENT_ROOTS);
        set!(self.0, spent_length, if length < SPENT_ROOTS { length + 1 } else { SPENT_ROOTS });
    }

    pub fn require_known_spent_root(self, current: Word, root: Word) -> Outcome {
        let length = get!(self.0, spent_length);
        let mut index = 0;
        let mut known = root.equals(current);
        while !known && index < length && index < SPENT_ROOTS {
            known = root.equals(Word::at(self.spent_root(index)));
            index += 1;
        }
        require(known, UNKNOWN_SPENT_ROOT)
    }
}
