//! Hashes notes: inner, commitment, nullifier.
use crate::bytes::{Bytes32, Word};
use crate::error::Fault;
use crate::hash::{element, high_half, low_half, poseidon};

pub mod opening;

/// `Poseidon(1, owner_hi, owner_lo, blinding)`.
pub fn note_inner(owner: Word, blinding: Word) -> Result<Bytes32, Fault> {
    let (tag, high, low) = (element(1), high_half(owner), low_half(owner));
    poseidon([Word::of(&tag), Word::of(&high), Word::of(&low), blinding])
}

/// `Poseidon(2, mint_hi, mint_lo, amount, inner)`.
pub fn settlement_commitment(mint: Word, amount: u64, inner: Word) -> Result<Bytes32, Fault> {
    let (tag, high, low, amount) = (element(2), high_half(mint), low_half(mint), element(amount));
    poseidon([Word::of(&tag), Word::of(&high), Word::of(&low), Word::of(&amount), inner])
}

/// As a settlement commitment, over `Poseidon(6, inner, leaf_index)`: equal deposits stay different notes.
pub fn deposit_commitment(mint: Word, amount: u64, inner: Word, leaf_index: u64) -> Result<Bytes32, Fault> {
    let (tag, index) = (element(6), element(leaf_index));
    let placed = poseidon([Word::of(&tag), inner, Word::of(&index)])?;
    settlement_commitment(mint, amount, Word::of(&placed))
}

/// `Poseidon(3, commitment, blinding)`.
pub fn nullifier_of(commitment: Word, blinding: Word) -> Result<Bytes32, Fault> {
    let tag = element(3);
    poseidon([Word::of(&tag), commitment, blinding])
}
