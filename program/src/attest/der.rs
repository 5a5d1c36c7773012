//! Reads DER (ITU-T X.690) strictly: one encoding for a value, shortest lengths, no superfluous zeros, nothing left over.
use crate::bytes::compare;
use crate::error::*;
use core::cmp::Ordering;

pub const INTEGER: u8 = 0x02;
pub const OCTETS: u8 = 0x04;
pub const OID: u8 = 0x06;
pub const ENUMERATED: u8 = 0x0a;
pub const UTF8: u8 = 0x0c;
pub const PRINTABLE: u8 = 0x13;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
pub const EXPLICIT_0: u8 = 0xa0;
pub const EXPLICIT_3: u8 = 0xa3;

/// Bytes that are read front to back, items one after the other.
#[derive(Clone, Copy)]
pub struct Der {
    pub at: *const u8,
    pub left: usize,
}

impl Der {
    /// The caller vouches for `left` readable bytes.
    pub fn new(at: *const u8, left: usize) -> Self {
        Der { at, left }
    }

    fn take(&mut self, length: usize) -> Result<*const u8, Fault> {
        require(self.left >= length, INVALID_CERTIFICATE)?;
        let at = self.at;
        self.at = unsafe { at.add(length) };
        self.left -= length;
        Ok(at)
    }

    fn byte(&mut self) -> Result<usize, Fault> {
        Ok(unsafe { *self.take(1)? } as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub fn end(&self) -> Outcome {
        require(self.is_empty(), INVALID_CERTIFICATE)
    }

    /// Tag of the next item; 0 behind the last.
    pub fn tag(&self) -> u8 {
        if self.left == 0 {
            return 0;
        }
        unsafe { *self.at }
    }

    /// Content of the next item, which has this tag. Nothing here needs more than two bytes for its length.
    #[inline(never)]
    pub fn item(&mut self, tag: u8) -> Result<Der, Fault> {
        require(self.tag() == tag, INVALID_CERTIFICATE)?;
        self.take(1)?;
        let short = self.byte()?;
        let length = match short {
            0..=0x7f => short,
            0x81 => {
                let length = self.byte()?;
                require(length >= 0x80, INVALID_CERTIFICATE)?;
                length
            }
            0x82 => {
                let length = self.byte()? << 8 | self.byte()?;
                require(length >= 0x100, INVALID_CERTIFICATE)?;
                length
            }
            _ => return Err(INVALID_CERTIFICATE),
        };
        Ok(Der::new(self.take(length)?, length))
    }

    /// The next item with tag and length.
    pub fn whole(&mut self, tag: u8) -> Result<Der, Fault> {
        let at = self.at;
        let content = self.item(tag)?;
        Ok(Der::new(at, content.at as usize + content.left - at as usize))
    }

    /// Content of exactly this length.
    pub fn sized(&mut self, tag: u8, length: usize) -> Result<*const u8, Fault> {
        let content = self.item(tag)?;
        require(content.left == length, INVALID_CERTIFICATE)?;
        Ok(content.at)
    }

    /// A non-negative INTEGER of at most `most`, which is below 2^24.
    pub fn integer(&mut self, most: usize) -> Result<usize, Fault> {
        let mut content = self.item(INTEGER)?;
        content.require_natural()?;
        require(content.left <= 3, INVALID_CERTIFICATE)?;
        let mut value = 0;
        while !content.is_empty() {
            value = value << 8 | content.byte()?;
        }
        require(value <= most, INVALID_CERTIFICATE)?;
        Ok(value)
    }

    /// Content of an INTEGER that is not negative and has no superfluous zero.
    pub fn require_natural(&self) -> Outcome {
        let mut content = *self;
        let first = content.byte()?;
        let superfluous = first == 0 && !content.is_empty() && content.byte()? < 0x80;
        require(first < 0x80 && !superfluous, INVALID_CERTIFICATE)
    }

    pub fn is(&self, bytes: &[u8]) -> bool {
        self.equals(&Der::new(bytes.as_ptr(), bytes.len()))
    }

    #[inline(never)]
    pub fn equals(&self, other: &Der) -> bool {
        self.left == other.left && compare(self.at, other.at, self.left) == Ordering::Equal
    }

    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        self.left >= bytes.len() && Der::new(self.at, bytes.len()).is(bytes)
    }

    pub fn ends_with(&self, bytes: &[u8]) -> bool {
        let before = self.left.wrapping_sub(bytes.len());
        self.left >= bytes.len() && Der::new(unsafe { self.at.add(before) }, bytes.len()).is(bytes)
    }
}
