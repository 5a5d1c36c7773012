//! Keeps the known states: a ring of 120 earlier states of the note tree and the spent log.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::{require, Fault, Outcome, UNKNOWN_SPENT_ROOT, UNKNOWN_STATE};
use crate::tree::Trees;

const STATES: u32 = 120;

/// A state is kept only when the newest kept one is this old, so 120 entries reach back at least 2,160 slots however
/// often the trees grow.
const SPACING_SLOTS: u64 = 18;

pub const SEED: &[u8] = b"ring";

#[repr(C)]
pub struct RingData {
    head: Head,
    _zeros: [u8; 5],
    next: u32,
    length: u32,
    states: [State; STATES as usize],
}

/// `slot` is when the state was left.
#[repr(C)]
struct State {
    slot: u64,
    leaf_count: u64,
    root: Bytes32,
    spent_root: Bytes32,
}

pub const RING_BYTES: usize = core::mem::size_of::<RingData>();
const _: () = assert!(RING_BYTES == 9_616);

impl Layout for RingData {
    const KIND: u8 = 3;
}

#[derive(Clone, Copy)]
pub struct KnownStates(Record<RingData>);

impl KnownStates {
    pub fn load(account: Account, config: Config) -> Result<Self, Fault> {
        Ok(KnownStates(Record::known(account, word!(config.record, ring))?))
    }

    pub fn load_writable(account: Account, config: Config) -> Result<Self, Fault> {
        account.require_writable()?;
        KnownStates::load(account, config)
    }

    fn state(self, index: u32) -> *mut State {
        let states = field!(self.0, states) as *mut State;
        unsafe { states.add((index % STATES) as usize) }
    }

    /// Keeps the present state, which the caller is about to leave.
    pub fn keep(self, trees: Trees) -> Outcome {
        let slot = now()?.slot;
        let (next, length) = (get!(self.0, next) % STATES, get!(self.0, length));
        if length > 0 {
            let newest = unsafe { (*self.state(next + STATES - 1)).slot };
            if slot.saturating_sub(newest) < SPACING_SLOTS {
                return Ok(());
            }
        }
        let entry = self.state(next);
        unsafe {
            (*entry).slot = slot;
            (*entry).leaf_count = trees.leaf_count();
            (*entry).root = trees.root().load();
            (*entry).spent_root = trees.spent_root().load();
        }
        set!(self.0, next, (next + 1) % STATES);
        set!(self.0, length, if length < STATES { length + 1 } else { STATES });
        Ok(())
    }

    /// The cited state of the note tree is the present one or one of the ring.
    pub fn require_known(self, trees: Trees, leaf_count: u64, root: Word) -> Outcome {
        let present = leaf_count == trees.leaf_count() && root.equals(trees.root());
        let kept = |state: &State| state.leaf_count == leaf_count && root.equals(Word::of(&state.root));
        require(present || self.holds(kept), UNKNOWN_STATE)
    }

    pub fn require_known_spent_root(self, trees: Trees, root: Word) -> Outcome {
        let kept = |state: &State| root.equals(Word::of(&state.spent_root));
        require(root.equals(trees.spent_root()) || self.holds(kept), UNKNOWN_SPENT_ROOT)
    }

    fn holds(self, is_it: impl Fn(&State) -> bool) -> bool {
        let length = get!(self.0, length);
        let mut index = 0;
        while index < length && index < STATES {
            if is_it(unsafe { &*self.state(index) }) {
                return true;
            }
            index += 1;
        }
        false
    }
}
