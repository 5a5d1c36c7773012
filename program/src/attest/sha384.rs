//! Hashes with SHA-384 (FIPS 180-4), for which the runtime has no syscall: event digests and the register they extend.
use crate::bytes::{clear, copy};

pub const DIGEST_BYTES: usize = 48;
const BLOCK_BYTES: usize = 128;
/// Bytes of the last block before the length of the message, which takes 16.
const LENGTH_AT: usize = 112;

#[rustfmt::skip]
static ROUNDS: [u64; 80] = [
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
];
#[rustfmt::skip]
const START: [u64; 8] = [
    0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
    0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4,
];

pub struct Sha384 {
    state: [u64; 8],
    block: [u8; BLOCK_BYTES],
    filled: usize,
    length: u64,
}

impl Sha384 {
    pub fn new() -> Self {
        Sha384 { state: START, block: [0; BLOCK_BYTES], filled: 0, length: 0 }
    }

    fn place(&mut self, at: usize) -> *mut u8 {
        unsafe { self.block.as_mut_ptr().add(at) }
    }

    /// The caller vouches for `left` readable bytes.
    #[inline(never)]
    pub fn update(&mut self, mut at: *const u8, mut left: usize) {
        self.length += left as u64;
        while left > 0 {
            let room = BLOCK_BYTES - self.filled;
            let length = if left < room { left } else { room };
            copy(self.place(self.filled), at, length);
            at = unsafe { at.add(length) };
            left -= length;
            self.filled += length;
            if self.filled == BLOCK_BYTES {
                compress(&mut self.state, self.block.as_ptr());
                self.filled = 0;
            }
        }
    }

    #[inline(never)]
    pub fn finish(&mut self, to: *mut u8) {
        unsafe { *self.place(self.filled) = 0x80 };
        let behind = self.filled + 1;
        clear(self.place(behind), BLOCK_BYTES - behind);
        if behind > LENGTH_AT {
            compress(&mut self.state, self.block.as_ptr());
            clear(self.place(0), BLOCK_BYTES);
        }
        let bits = (self.length * 8).to_be();
        unsafe { (self.place(BLOCK_BYTES - 8) as *mut u64).write_unaligned(bits) };
        compress(&mut self.state, self.block.as_ptr());
        let mut index = 0;
        while index < DIGEST_BYTES / 8 {
            unsafe {
                let word = *self.state.as_ptr().add(index);
                (to as *mut u64).add(index).write_unaligned(word.to_be());
            }
            index += 1;
        }
    }
}

macro_rules! round {
    ($w:ident $keys:ident $i:literal $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let mix = $e.rotate_right(14) ^ $e.rotate_right(18) ^ $e.rotate_right(41);
        let choice = $g ^ ($e & ($f ^ $g));
        let key = unsafe { *$keys.add($i) };
        let first = $h.wrapping_add(mix).wrapping_add(choice).wrapping_add(key).wrapping_add($w[$i]);
        let mix = $a.rotate_right(28) ^ $a.rotate_right(34) ^ $a.rotate_right(39);
        let majority = ($a & $b) | ($c & ($a | $b));
        $d = $d.wrapping_add(first);
        $h = first.wrapping_add(mix).wrapping_add(majority);
    };
}

/// Rounds of one turn of the eight variables; the names move, not the values.
macro_rules! rounds {
    ($w:ident $keys:ident $($i:literal)+; $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        rounds!(@ $w $keys [$($i)+] $a $b $c $d $e $f $g $h);
    };
    (@ $w:ident $keys:ident [] $($v:ident)+) => {};
    (@ $w:ident $keys:ident [$i:literal $($rest:literal)*]
        $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        round!($w $keys $i $a $b $c $d $e $f $g $h);
        rounds!(@ $w $keys [$($rest)*] $h $a $b $c $d $e $f $g);
    };
}

/// The next sixteen words of the message schedule, in place.
macro_rules! schedule {
    ($w:ident $($i:literal)+) => { $(
        let late = $w[($i + 14) % 16];
        let early = $w[($i + 1) % 16];
        let late = late.rotate_right(19) ^ late.rotate_right(61) ^ (late >> 6);
        let early = early.rotate_right(1) ^ early.rotate_right(8) ^ (early >> 7);
        $w[$i] = $w[$i].wrapping_add(late).wrapping_add(early).wrapping_add($w[($i + 9) % 16]);
    )+ };
}

#[inline(never)]
fn compress(state: &mut [u64; 8], block: *const u8) {
    let mut w = [0u64; 16];
    let mut index = 0;
    while index < 16 {
        unsafe {
            *w.as_mut_ptr().add(index) = u64::from_be((block as *const u64).add(index).read_unaligned());
        }
        index += 1;
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut keys = ROUNDS.as_ptr();
    let mut turn = 0;
    loop {
        rounds!(w keys 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; a b c d e f g h);
        turn += 1;
        if turn == 5 {
            break;
        }
        keys = unsafe { keys.add(16) };
        schedule!(w 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    let mut index = 0;
    for one in [a, b, c, d, e, f, g, h] {
        unsafe {
            let at = state.as_mut_ptr().add(index);
            *at = (*at).wrapping_add(one);
        }
        index += 1;
    }
}
