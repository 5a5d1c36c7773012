//! Reads the data of a settlement batch and checks its form before any account is touched.
use crate::bytes::{Reader, Word};
use crate::error::*;
use crate::field::{require_ascending, require_element};

const NULLIFIERS_MAX: usize = 56;
const OUTPUTS_MAX: usize = 80;
const PAYOUTS_MAX: usize = 24;
const PAYOUT_MINTS_MAX: usize = 8;
pub const OUTPUT_BYTES: usize = 48;

/// Layout as in `protocol/vault/settle.ts`.
pub struct Batch {
    pub epoch: u64,
    pub batch: u64,
    pub cited_leaf_count: u64,
    pub cited_root: Word,
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
    /// At the first payout; every payout is read by `Payout::read`.
    pub payouts: Reader,
}

impl Batch {
    pub fn read(mut data: Reader) -> Result<Self, Fault> {
        let (epoch, batch, cited_leaf_count, cited_root) =
            (data.u64()?, data.u64()?, data.u64()?, data.word()?);
        let (journal_seq, journal_head) = (data.u64()?, data.word()?);
        let (mint_count, nullifier_count) = (data.u8()? as usize, data.u8()? as usize);
        let (output_count, payout_count) = (data.u8()? as usize, data.u8()? as usize);
        require(nullifier_count <= NULLIFIERS_MAX && output_count <= OUTPUTS_MAX, INVALID_DATA)?;
        require(payout_count <= PAYOUTS_MAX && mint_count <= PAYOUT_MINTS_MAX, INVALID_DATA)?;
        require(mint_count <= payout_count, INVALID_DATA)?;
        let nullifiers = data.take(nullifier_count * 32)?;
        let outputs = data.take(output_count * OUTPUT_BYTES)?;
        require_ascending(nullifiers, nullifier_count, 32)?;
        require_ascending(outputs, output_count, OUTPUT_BYTES)?;
        Ok(Batch {
            epoch,
            batch,
            cited_leaf_count,
            cited_root,
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
}

const WITHDRAWAL: u8 = 0;
const EXIT: u8 = 1;

/// A payout as instruction data carries it: kind u8, mint u8, nullifier u8, amount u64, destination (32), inner (32).
pub struct Payout {
    pub kind: u8,
    /// Place among the batch's mints.
    pub mint: usize,
    /// Of an exit: place among the batch's nullifiers; else 0.
    pub nullifier: usize,
    pub amount: u64,
    pub destination: Word,
    pub inner: Word,
}

impl Payout {
    pub fn read(data: &mut Reader) -> Result<Self, Fault> {
        let payout = Payout {
            kind: data.u8()?,
            mint: data.u8()? as usize,
            nullifier: data.u8()? as usize,
            amount: data.u64()?,
            destination: data.word()?,
            inner: data.word()?,
        };
        require(payout.kind == EXIT || (payout.kind == WITHDRAWAL && payout.nullifier == 0), INVALID_DATA)?;
        require(payout.amount != 0, INVALID_DATA)?;
        require_element(payout.inner)?;
        Ok(payout)
    }

    pub fn is_exit(&self) -> bool {
        self.kind == EXIT
    }
}
