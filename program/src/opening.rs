//! Opens a note in public: reads its data and computes the hashes that prove it.
use crate::bytes::{Bytes32, Reader, Word};
use crate::error::{require, Fault, INVALID_DATA};
use crate::field::require_element;
use crate::note::{deposit_commitment, note_inner, nullifier_of, settlement_commitment};

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
    pub fn open(&self, mint: Word, owner: Word) -> Result<Note, Fault> {
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
