//! Opens a note in public: reads its data and computes the hashes that prove it.
use crate::bytes::{Bytes32, Reader, Word};
use crate::error::{require, Fault, INVALID_DATA, INVALID_INCLUSION};
use crate::field::require_element;
use crate::known_states::KnownStates;
use crate::note::{deposit_commitment, note_inner, nullifier_of, settlement_commitment};
use crate::tree::{root_from_path, Trees, PATH_BYTES};

const SETTLEMENT: u8 = 0;
const DEPOSIT: u8 = 1;

/// Data: form u8 · amount u64 · blinding (32) · leaf_index u64.
pub struct Opening {
    form: u8,
    pub amount: u64,
    blinding: Word,
    pub leaf_index: u64,
}

pub struct Note {
    pub commitment: Bytes32,
    pub nullifier: Bytes32,
}

impl Opening {
    pub fn read(data: &mut Reader) -> Result<Self, Fault> {
        let opening = Opening {
            form: data.u8()?,
            amount: data.u64()?,
            blinding: data.word()?,
            leaf_index: data.u64()?,
        };
        require(opening.form == SETTLEMENT || opening.form == DEPOSIT, INVALID_DATA)?;
        require_element(opening.blinding)?;
        Ok(opening)
    }

    /// The note of `owner`, who signed: knowing the opening alone is not enough.
    fn open(&self, mint: Word, owner: Word) -> Result<Note, Fault> {
        let inner = note_inner(owner, self.blinding)?;
        let inner = Word::of(&inner);
        let commitment = if self.form == DEPOSIT {
            deposit_commitment(mint, self.amount, inner, self.leaf_index)?
        } else {
            settlement_commitment(mint, self.amount, inner)?
        };
        let nullifier = nullifier_of(Word::of(&commitment), self.blinding)?;
        Ok(Note { commitment, nullifier })
    }
}

/// Proves that a state of the note tree contains a note.
pub struct Inclusion {
    pub opening: Opening,
    cited_leaf_count: u64,
    cited_root: Word,
    path: *const u8,
}

impl Inclusion {
    /// Data: opening · leaf count u64 · root (32) · `N` words of the instruction · path.
    #[inline(always)]
    pub fn read<const N: usize>(mut data: Reader) -> Result<(Self, [Word; N]), Fault> {
        let (opening, cited_leaf_count, cited_root) = (Opening::read(&mut data)?, data.u64()?, data.word()?);
        let mut words = [cited_root; N];
        for word in &mut words {
            *word = data.word()?;
        }
        let path = data.take(PATH_BYTES)?;
        data.end()?;
        require(opening.leaf_index < cited_leaf_count, INVALID_INCLUSION)?;
        Ok((Inclusion { opening, cited_leaf_count, cited_root, path }, words))
    }

    /// The note of `owner`, who signed, which a known state of the tree contains.
    #[inline(always)]
    pub fn open(&self, trees: Trees, ring: KnownStates, mint: Word, owner: Word) -> Result<Note, Fault> {
        ring.require_known(trees, self.cited_leaf_count, self.cited_root)?;
        let note = self.opening.open(mint, owner)?;
        let root = root_from_path(Word::of(&note.commitment), self.opening.leaf_index, self.path)?;
        require(Word::of(&root).equals(self.cited_root), INVALID_INCLUSION)?;
        Ok(note)
    }
}
