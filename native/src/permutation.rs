//! The Poseidon permutation of circom, with the partial rounds' matrices factored into sparse ones.

use crate::constants::R_SQUARED;
use crate::field::{add, dot, from_bytes, mul, to_bytes, Element, ONE};

/// Constants of one width; every element below p and in Montgomery form. T = inputs + 1, INPUTS = T - 1.
pub struct Constants<const T: usize, const INPUTS: usize, const PARTIAL: usize> {
    /// Added before each full round; those of the partial rounds are pushed into the fifth.
    pub full: [[Element; T]; 8],
    pub matrix: [[Element; T]; T],
    /// The matrix before the first partial round.
    pub entry: [[Element; T]; T],
    /// Added to the first element before each partial round.
    pub first: [Element; PARTIAL],
    /// First row and rest of the first column of each sparse matrix; its other elements are those of the identity.
    pub row: [[Element; T]; PARTIAL],
    pub column: [[Element; INPUTS]; PARTIAL],
}

#[inline(always)]
fn power5(x: &Element) -> Element {
    let square = mul(x, x);
    mul(&mul(&square, &square), x)
}

fn full_round<const T: usize>(
    state: &mut [Element; T],
    constants: &[Element; T],
    matrix: &[[Element; T]; T],
) {
    let raised: [Element; T] = core::array::from_fn(|i| power5(&add(&state[i], &constants[i])));
    for i in 0..T {
        state[i] = dot(&raised, &matrix[i]);
    }
}

impl<const T: usize, const INPUTS: usize, const PARTIAL: usize> Constants<T, INPUTS, PARTIAL> {
    fn partial_rounds(&self, state: &mut [Element; T]) {
        for round in 0..PARTIAL {
            state[0] = power5(&add(&state[0], &self.first[round]));
            let first = dot(state, &self.row[round]);
            for i in 1..T {
                state[i] = add(&state[i], &mul(&state[0], &self.column[round][i - 1]));
            }
            state[0] = first;
        }
    }

    /// Hashes inputs of 32 big-endian bytes to the same.
    pub fn hash(&self, inputs: &[[u8; 32]; INPUTS]) -> [u8; 32] {
        let mut state: [Element; T] =
            core::array::from_fn(
                |i| if i == 0 { [0; 4] } else { mul(&from_bytes(&inputs[i - 1]), &R_SQUARED) },
            );
        for round in 0..3 {
            full_round(&mut state, &self.full[round], &self.matrix);
        }
        full_round(&mut state, &self.full[3], &self.entry);
        self.partial_rounds(&mut state);
        for round in 4..7 {
            full_round(&mut state, &self.full[round], &self.matrix);
        }
        let raised: [Element; T] = core::array::from_fn(|i| power5(&add(&state[i], &self.full[7][i])));
        to_bytes(mul(&dot(&raised, &self.matrix[0]), &ONE))
    }
}
