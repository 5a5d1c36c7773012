//! Owns the note tree: append-only, depth 32, only the frontier is kept.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{copy, Bytes32, Word};
use crate::create::Seeds;
use crate::error::{require, Fault, Outcome, INVALID_DATA, TREE_FULL};
use crate::heap::LEAVES_MAX;
use crate::poseidon::poseidon_into;
use empty_subtrees::EMPTY_SUBTREES;

mod empty_subtrees;

pub const DEPTH: usize = 32;
/// Siblings of an inclusion path, 32 bytes each.
pub const PATH_BYTES: usize = 32 * DEPTH;
const CAPACITY: u64 = 1 << DEPTH;

pub const SEED: &[u8] = b"tree";

#[repr(C)]
pub struct TreeData {
    head: Head,
    _zeros: [u8; 5],
    leaf_count: u64,
    root: Bytes32,
    /// Entry h: the left sibling the next leaf needs at height h.
    frontier: [Bytes32; DEPTH],
}

pub const TREE_BYTES: usize = core::mem::size_of::<TreeData>();
const _: () = assert!(TREE_BYTES == 1_072);

impl Layout for TreeData {
    const KIND: u8 = 2;
}

#[derive(Clone, Copy)]
pub struct NoteTree(Record<TreeData>);

impl NoteTree {
    pub fn load(account: Account, program: Word) -> Result<Self, Fault> {
        Ok(NoteTree(Record::load(account, &Seeds(&[SEED]), program)?))
    }

    pub fn begin(account: Account, bump: u8) -> Outcome {
        let tree = NoteTree(Record::begin(account, bump)?);
        set_word!(tree.0, root, empty_subtree(DEPTH));
        Ok(())
    }

    pub fn leaf_count(self) -> u64 {
        get!(self.0, leaf_count)
    }

    pub fn root(self) -> Word {
        word!(self.0, root)
    }

    fn frontier(self, height: usize) -> *mut u8 {
        let frontier = field!(self.0, frontier) as *mut u8;
        unsafe { frontier.add(32 * height) }
    }

    /// Appends `count` leaves that stand in `nodes`, which is overwritten height by height with their ancestors.
    pub fn append(self, nodes: *mut u8, count: usize) -> Outcome {
        let first = self.leaf_count();
        require(count <= LEAVES_MAX, INVALID_DATA)?;
        require(first <= CAPACITY && CAPACITY - first >= count as u64, TREE_FULL)?;
        if count == 0 {
            return Ok(());
        }
        let total = first + count as u64;
        let mut level = Level { nodes, first, count };
        let mut height = 0;
        while height < DEPTH {
            let left = Word::at(self.frontier(height)).load();
            let complete = total >> height;
            if complete & 1 == 1 && complete > level.first {
                copy(self.frontier(height), level.node((complete - 1 - level.first) as usize), 32);
            }
            level = level.parents(Word::of(&left), empty_subtree(height))?;
            height += 1;
        }
        set_word!(self.0, root, Word::at(nodes));
        set!(self.0, leaf_count, total);
        Ok(())
    }
}

/// Neighbouring nodes of one height: `count` of them from index `first`, the last one possibly still growing.
struct Level {
    nodes: *mut u8,
    first: u64,
    count: usize,
}

impl Level {
    fn node(&self, at: usize) -> *mut u8 {
        unsafe { self.nodes.add(32 * at) }
    }

    /// Hashes pairs in place. `left` is the sibling before an odd first node, `empty` the one after an even last node.
    fn parents(self, left: Word, empty: Word) -> Result<Level, Fault> {
        let (mut read, mut write) = (0, 0);
        if self.first & 1 == 1 {
            poseidon_into([left, Word::at(self.node(0))], self.node(0))?;
            (read, write) = (1, 1);
        }
        while read < self.count {
            let right = if read + 1 < self.count { Word::at(self.node(read + 1)) } else { empty };
            poseidon_into([Word::at(self.node(read)), right], self.node(write))?;
            read += 2;
            write += 1;
        }
        Ok(Level { nodes: self.nodes, first: self.first >> 1, count: write })
    }
}

pub fn empty_subtree(height: usize) -> Word {
    Word::of(&EMPTY_SUBTREES[if height > DEPTH { DEPTH } else { height }])
}

/// The root a leaf leads to through 32 siblings of 32 bytes, from the leaf upwards.
pub fn root_from_path(leaf: Word, index: u64, path: *const u8) -> Result<Bytes32, Fault> {
    require(index < CAPACITY, INVALID_DATA)?;
    let mut node = leaf.load();
    let at = node.0.as_mut_ptr();
    let mut height = 0;
    while height < DEPTH {
        let sibling = Word::at(unsafe { path.add(32 * height) });
        let pair = if index >> height & 1 == 1 { [sibling, Word::at(at)] } else { [Word::at(at), sibling] };
        poseidon_into(pair, at)?;
        height += 1;
    }
    Ok(node)
}
