//! Reads the runtime's serialized parameters into accounts, instruction data and program id.
use crate::account::Account;
use crate::bytes::{Reader, Word};
use crate::error::{require, Fault, Outcome, MISSING_ACCOUNTS};

/// More accounts than any instruction takes; a transaction cannot name more.
pub const ACCOUNTS_MAX: usize = 64;

/// Room the runtime leaves behind account data for growth.
const GROWTH_BYTES: usize = 10_240;
const NOT_DUPLICATE: u8 = 0xff;

pub type Accounts = [Account; ACCOUNTS_MAX];

/// One invocation: who is named and who we are.
pub struct Call<'a> {
    pub accounts: &'a Accounts,
    pub count: usize,
    pub program: Word,
}

impl Call<'_> {
    /// The first `N` accounts of a call that has exactly that many.
    pub fn exactly<const N: usize>(&self) -> Result<[Account; N], Fault> {
        require(self.count == N, MISSING_ACCOUNTS)?;
        self.first()
    }

    pub fn first<const N: usize>(&self) -> Result<[Account; N], Fault> {
        const { assert!(N <= ACCOUNTS_MAX) };
        require(self.count >= N, MISSING_ACCOUNTS)?;
        let mut first = [self.accounts[0]; N];
        let mut index = 0;
        while index < N {
            first[index] = self.accounts[index];
            index += 1;
        }
        Ok(first)
    }

    pub fn get(&self, index: usize) -> Result<Account, Fault> {
        require(index < self.count, MISSING_ACCOUNTS)?;
        self.accounts.get(index).copied().ok_or(MISSING_ACCOUNTS)
    }

    pub fn require_count(&self, count: usize) -> Outcome {
        require(self.count == count, MISSING_ACCOUNTS)
    }
}

/// Parses the parameters: u64 account count, accounts (a duplicate is an index byte and 7 bytes), u64 data length,
/// data, program id.
///
/// # Safety
/// `input` is the runtime's parameter region.
pub unsafe fn parse(input: *mut u8) -> Result<(Accounts, usize, Reader, Word), Fault> {
    let count = (input as *const u64).read() as usize;
    if count > ACCOUNTS_MAX {
        return Err(MISSING_ACCOUNTS);
    }
    let mut accounts = [Account::at(input); ACCOUNTS_MAX];
    let mut at = input.add(8);
    let mut index = 0;
    while index < count {
        let marker = *at;
        if marker == NOT_DUPLICATE {
            let account = Account::at(at);
            accounts[index] = account;
            at = at.add(Account::HEADER_BYTES + ((account.length() + 7) & !7) + GROWTH_BYTES + 8);
        } else {
            accounts[index] = accounts[marker as usize & (ACCOUNTS_MAX - 1)];
            at = at.add(8);
        }
        index += 1;
    }
    let length = (at as *const u64).read() as usize;
    let data = at.add(8);
    Ok((accounts, count, Reader::new(data, length), Word::at(data.add(length))))
}
