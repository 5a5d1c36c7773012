//! Owns the form of a settlement batch: its data, read and checked before any account is touched.
use crate::bytes::{Reader, Word};
use crate::error::*;
use crate::field::require_element;
use crate::payout::PAYOUT_MINTS_MAX;
use core::cmp::Ordering;

const NULLIFIERS_MAX: usize = 96;
const OUTPUTS_MAX: usize = 80;
const PAYOUTS_MAX: usize = 24;
pub const OUTPUT_BYTES: usize = 48;

/// Layout as in `protocol/vault/settle.ts`.
pub struct Batch {
    pub epoch: u64,
    pub batch: u64,
    pub cited_leaf_count: u64,
    pub cited_root: Word,
    pub spent_root: Word,
    pub journal_seq: u64,
    pub journal_head: Word,
    pub nullifier_count: usize,
    /// `nullifier_count` times 32 bytes.
    pub nullifiers: *const u8,
    pub output_count: usize,
    /// `output_count` times commitment (32) and memo (16).
    pub outputs: *const u8,
    pub payout_count: usize,
    pub mint_count: usize,
    /// Stands at the first payout; every payout is read by `Payout::read`.
    pub payouts: Reader,
}

impl Batch {
    pub fn read(mut data: Reader) -> Result<Self, Fault> {
        let (epoch, batch, cited_leaf_count) = (data.u64()?, data.u64()?, data.u64()?);
        let (cited_root, spent_root) = (data.word()?, data.word()?);
        let (journal_seq, journal_head) = (data.u64()?, data.word()?);
        let (nullifier_count, output_count) = (data.u8()? as usize, data.u8()? as usize);
        let (payout_count, mint_count) = (data.u8()? as usize, data.u8()? as usize);
        require(nullifier_count <= NULLIFIERS_MAX && output_count <= OUTPUTS_MAX, INVALID_DATA)?;
        require(payout_count <= PAYOUTS_MAX && mint_count <= PAYOUT_MINTS_MAX, INVALID_DATA)?;
        require(mint_count <= payout_count, INVALID_DATA)?;
        require(nullifier_count + output_count + payout_count > 0, EMPTY_BATCH)?;
        let nullifiers = data.take(nullifier_count * 32)?;
        let outputs = data.take(output_count * OUTPUT_BYTES)?;
        Ok(Batch {
            epoch,
            batch,
            cited_leaf_count,
            cited_root,
            spent_root,
            journal_seq,
            journal_head,
            nullifier_count,
            nullifiers,
            output_count,
            outputs,
            payout_count,
            mint_count,
            payouts: data,
        })
    }

    pub fn nullifier(&self, index: usize) -> Result<Word, Fault> {
        require(index < self.nullifier_count, PAYOUT_MISMATCH)?;
        Ok(Word::at(unsafe { self.nullifiers.add(index * 32) }))
    }

    pub fn commitment(&self, index: usize) -> Word {
        Word::at(unsafe { self.outputs.add(index * OUTPUT_BYTES) })
    }

    /// Field elements in strictly ascending order, so position links nothing and nothing repeats.
    pub fn require_ascending(&self) -> Outcome {
        let mut last = Word::zero();
        let mut index = 0;
        while index < self.nullifier_count {
            last = follow(last, Word::at(unsafe { self.nullifiers.add(index * 32) }))?;
            index += 1;
        }
        last = Word::zero();
        index = 0;
        while index < self.output_count {
            last = follow(last, self.commitment(index))?;
            index += 1;
        }
        Ok(())
    }

    /// The spent root changes exactly when something is spent.
    pub fn require_spent_root(&self, current: Word) -> Outcome {
        require_element(self.spent_root)?;
        require(self.spent_root.equals(current) == (self.nullifier_count == 0), SPENT_ROOT_MISMATCH)
    }
}

fn follow(last: Word, next: Word) -> Result<Word, Fault> {
    require_element(next)?;
    require(next.compare(last) == Ordering::Greater, NOT_ASCENDING)?;
    Ok(next)
}
