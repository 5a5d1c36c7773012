//! Arithmetic modulo BN254's scalar prime p on four 64-bit limbs, in Montgomery form with R = 2^256.
//!
//! R is about 5.29 p, so elements stay below 2 p instead of p: a product then needs no final subtraction. The bounds
//! beside each function carry that invariant through. Nothing here branches on a value.

/// Little-endian limbs of a value below 2 p.
pub type Element = [u64; 4];

pub const ZERO: Element = [0; 4];
pub const ONE: Element = [1, 0, 0, 0];

/// The order of BN254's scalar field (EIP-197).
const P: Element = [0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029];
const TWICE_P: Element = [0x87c3eb27e0000002, 0x5067d090f372e122, 0x70a08b6d0302b0ba, 0x60c89ce5c2634053];
/// -1 / p modulo 2^64.
const NEGATED_INVERSE: u64 = 0xc2e1f593efffffff;

/// `sum + a * b + carry`, low and high word: at most 2^128 - 1.
#[inline(always)]
fn multiply_add(sum: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let wide = sum as u128 + a as u128 * b as u128 + carry as u128;
    (wide as u64, (wide >> 64) as u64)
}

/// a + b, for a sum below 2^256.
#[inline(always)]
fn sum(a: &Element, b: &Element) -> Element {
    let mut carry = 0;
    core::array::from_fn(|i| {
        let wide = a[i] as u128 + b[i] as u128 + carry as u128;
        carry = (wide >> 64) as u64;
        wide as u64
    })
}

/// a - limit where that is not negative, else a.
#[inline(always)]
fn less(a: Element, limit: &Element) -> Element {
    let mut borrow = false;
    let difference: Element = core::array::from_fn(|i| {
        let (first, below) = a[i].overflowing_sub(limit[i]);
        let (second, below_again) = first.overflowing_sub(borrow as u64);
        borrow = below | below_again;
        second
    });
    let keep = 0u64.wrapping_sub(borrow as u64);
    core::array::from_fn(|i| (a[i] & keep) | (difference[i] & !keep))
}

/// a + b: two elements are below 4 p together.
#[inline(always)]
pub fn add(a: &Element, b: &Element) -> Element {
    less(sum(a, b), &TWICE_P)
}

/// a * b / R: below (4 p p + R p) / R, which is 1.76 p.
#[inline(always)]
pub fn mul(a: &Element, b: &Element) -> Element {
    let mut t = [0u64; 5];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            (t[j], carry) = multiply_add(t[j], a[j], b[i], carry);
        }
        let top = t[4] + carry;
        let q = t[0].wrapping_mul(NEGATED_INVERSE);
        (_, carry) = multiply_add(t[0], q, P[0], 0);
        for j in 1..4 {
            (t[j - 1], carry) = multiply_add(t[j], q, P[j], carry);
        }
        (t[3], t[4]) = multiply_add(top, 0, 0, carry);
    }
    [t[0], t[1], t[2], t[3]]
}

/// (a0 * b0 + a1 * b1 + ...) / R, reduced once. At most six products, one factor of each below p: their sum is below
/// 12 p p, the quotient below (12 p p + R p) / R, which is 3.27 p.
#[inline(always)]
pub fn dot<const N: usize>(a: &[Element; N], b: &[Element; N]) -> Element {
    let mut t = [0u64; 8];
    for n in 0..N {
        for i in 0..4 {
            let mut carry = 0;
            for j in 0..4 {
                (t[i + j], carry) = multiply_add(t[i + j], a[n][j], b[n][i], carry);
            }
            for word in t.iter_mut().skip(i + 4) {
                (*word, carry) = multiply_add(*word, 0, 0, carry);
            }
        }
    }
    let mut above = 0;
    for i in 0..4 {
        let q = t[i].wrapping_mul(NEGATED_INVERSE);
        let mut carry = 0;
        for j in 0..4 {
            (t[i + j], carry) = multiply_add(t[i + j], q, P[j], carry);
        }
        let wide = t[i + 4] as u128 + carry as u128 + above as u128;
        (t[i + 4], above) = (wide as u64, (wide >> 64) as u64);
    }
    less([t[4], t[5], t[6], t[7]], &TWICE_P)
}

/// 32 big-endian bytes as an integer; any value is taken modulo p (2^256 is below 6 p).
pub fn from_bytes(bytes: &[u8; 32]) -> Element {
    let mut words = ZERO;
    for (i, byte) in bytes.iter().enumerate() {
        words[3 - i / 8] = words[3 - i / 8] << 8 | *byte as u64;
    }
    less(less(words, &TWICE_P), &TWICE_P)
}

/// The canonical big-endian bytes of an element that left Montgomery form, so is at most p.
pub fn to_bytes(value: Element) -> [u8; 32] {
    let canonical = less(value, &P);
    core::array::from_fn(|i| (canonical[3 - i / 8] >> (56 - 8 * (i % 8))) as u8)
}
