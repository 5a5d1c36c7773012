//! Computes the roots of the note tree and of the spent log: append-only, depth 40, only the frontiers are kept.
use crate::account::record::{Head, Layout, Record};
use crate::account::Account;
use crate::bytes::{copy, Bytes32, Word};
use crate::config::Config;
use crate::error::{require, Fault, Outcome, INVALID_DATA, TREE_FULL};
use crate::hash::{poseidon_into, sha256, Slice};
use empty_subtrees::{EMPTY_BATCHES, EMPTY_NOTES};

mod empty_subtrees;
pub mod spent_proof;

pub const DEPTH: usize = 40;
/// Siblings of an inclusion path, 32 bytes each.
pub const PATH_BYTES: usize = 32 * DEPTH;
const CAPACITY: u64 = 1 << DEPTH;

pub const SEED: &[u8] = b"tree";

/// Entry h of a frontier: the left sibling that the next leaf needs at height h, meaningful where bit h of the leaf
/// count is set. The spent log has a leaf for each batch, so its leaf count is config's `last_batch`.
#[repr(C)]
pub struct TreesData {
    head: Head,
    _zeros: [u8; 5],
    leaf_count: u64,
    root: Bytes32,
    frontier: [Bytes32; DEPTH],
    spent_root: Bytes32,
    spent_frontier: [Bytes32; DEPTH],
}

pub const TREES_BYTES: usize = core::mem::size_of::<TreesData>();
const _: () = assert!(TREES_BYTES == 2_640);

impl Layout for TreesData {
    const KIND: u8 = 2;
}

#[derive(Clone, Copy)]
pub struct Trees(Record<TreesData>);

impl Trees {
    pub fn load(account: Account, config: Config) -> Result<Self, Fault> {
        Ok(Trees(Record::known(account, word!(config.record, tree))?))
    }

    pub fn load_writable(account: Account, config: Config) -> Result<Self, Fault> {
        account.require_writable()?;
        Trees::load(account, config)
    }

    pub fn begin(account: Account, bump: u8) {
        let trees = Trees(Record::begin(account, bump));
        set_word!(trees.0, root, Word::of(&EMPTY_NOTES[DEPTH]));
        set_word!(trees.0, spent_root, Word::of(&EMPTY_BATCHES[DEPTH]));
    }

    pub fn leaf_count(self) -> u64 {
        get!(self.0, leaf_count)
    }

    pub fn root(self) -> Word {
        word!(self.0, root)
    }

    pub fn spent_root(self) -> Word {
        word!(self.0, spent_root)
    }

    /// Appends the `count` note commitments in `nodes`, which is overwritten height by height with their ancestors. Each
    /// was placed by `heap::leaf`.
    pub fn append(self, nodes: *mut u8, count: usize) -> Outcome {
        let first = self.leaf_count();
        require(first <= CAPACITY && CAPACITY - first >= count as u64, TREE_FULL)?;
        if count == 0 {
            return Ok(());
        }
        let total = first + count as u64;
        let frontier = field!(self.0, frontier) as *mut Bytes32;
        let mut level = Level { nodes, first, count };
        let mut height = 0;
        while height < DEPTH {
            let at = unsafe { frontier.add(height) };
            let left = unsafe { *at };
            let complete = total >> height;
            if complete & 1 == 1 && complete > level.first {
                copy(at as *mut u8, level.node((complete - 1 - level.first) as usize), 32);
            }
            level = level.parents(Word::of(&left), Word::of(&EMPTY_NOTES[height]))?;
            height += 1;
        }
        set_word!(self.0, root, Word::at(nodes));
        set!(self.0, leaf_count, total);
        Ok(())
    }

    /// Appends the leaf of batch `index` + 1 to the spent log, which has `index` leaves.
    pub fn append_spent(self, index: u64, leaf: Bytes32) -> Outcome {
        require(index < CAPACITY, TREE_FULL)?;
        let frontier = field!(self.0, spent_frontier) as *mut Bytes32;
        let mut node = leaf;
        let mut complete = true;
        let mut height = 0;
        while height < DEPTH {
            let at = unsafe { frontier.add(height) };
            if index >> height & 1 == 1 {
                node = spent_node(Word::at(at as *const u8), Word::of(&node));
            } else {
                if complete {
                    unsafe { *at = node };
                    complete = false;
                }
                node = spent_node(Word::of(&node), Word::of(&EMPTY_BATCHES[height]));
            }
            height += 1;
        }
        set_word!(self.0, spent_root, Word::of(&node));
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

/// The note root that a leaf leads to through 40 siblings of 32 bytes, from the leaf upwards. The caller has compared
/// `index` with a known leaf count.
pub fn root_from_path(leaf: Word, index: u64, path: *const u8) -> Result<Bytes32, Fault> {
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

/// Leaf of a batch in the spent log: its id and the nullifiers it spends, in their order.
pub fn spent_leaf(batch: u64, nullifiers: *const u8, count: usize) -> Bytes32 {
    let id = batch.to_le_bytes();
    sha256([b"tacit/spent/v1"[..].into(), id[..].into(), Slice::of(nullifiers, 32 * count)])
}

fn spent_node(left: Word, right: Word) -> Bytes32 {
    sha256([[1u8][..].into(), left.into(), right.into()])
}

/// The spent root that a leaf leads to through 40 siblings of 32 bytes, from the leaf upwards.
pub fn spent_root_from_path(leaf: Bytes32, index: u64, path: *const u8) -> Result<Bytes32, Fault> {
    require(index < CAPACITY, INVALID_DATA)?;
    let mut node = leaf;
    let mut height = 0;
    while height < DEPTH {
        let sibling = Word::at(unsafe { path.add(32 * height) });
        let own = Word::of(&node);
        node = if index >> height & 1 == 1 { spent_node(sibling, own) } else { spent_node(own, sibling) };
        height += 1;
    }
    Ok(node)
}
