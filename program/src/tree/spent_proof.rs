//! Reads and checks the proof that a batch spent a note.
use crate::bytes::{Reader, Word};
use crate::error::*;
use crate::known_states::KnownStates;
use crate::tree::{spent_leaf, spent_root_from_path, Trees, PATH_BYTES};

/// Data: cited root (32) · batch u64 · count u8 · nullifiers (32 each) · path.
pub struct SpentProof {
    cited_root: Word,
    batch: u64,
    count: usize,
    nullifiers: *const u8,
    path: *const u8,
}

impl SpentProof {
    pub fn read(mut data: Reader) -> Result<Self, Fault> {
        let (cited_root, batch, count) = (data.word()?, data.u64()?, data.u8()? as usize);
        let nullifiers = data.take(32 * count)?;
        let path = data.take(PATH_BYTES)?;
        data.end()?;
        Ok(SpentProof { cited_root, batch, count, nullifiers, path })
    }

    /// The batch is in the spent log, now or in a kept state, and lists `nullifier`.
    pub fn require(&self, nullifier: Word, trees: Trees, ring: KnownStates) -> Outcome {
        ring.require_known_spent_root(trees, self.cited_root)?;
        let index = self.batch.checked_sub(1).ok_or(INVALID_SPENT_PROOF)?;
        let leaf = spent_leaf(self.batch, self.nullifiers, self.count);
        let root = spent_root_from_path(leaf, index, self.path)?;
        let spent =
            (0..self.count).any(|at| Word::at(unsafe { self.nullifiers.add(32 * at) }).equals(nullifier));
        require(spent && Word::of(&root).equals(self.cited_root), INVALID_SPENT_PROOF)
    }
}
