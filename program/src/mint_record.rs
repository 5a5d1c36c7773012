//! Owns the record of a registered mint and its liability counter.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::Word;
use crate::create::Seeds;
use crate::error::*;

pub const MINT_RECORD_BYTES: usize = 160;
const KIND: u8 = 4;

pub const SEED: &[u8] = b"mint";
pub const VAULT_SEED: &[u8] = b"vault";

/// Layout: 3 vault_bump · 4 decimals · 5 freezable · 6 mint_index u16 · 8 mint · 40 token_program · 72 vault_token ·
/// 104 min_deposit · 112 min_exit · 120 liabilities · 128 reserved.
#[derive(Clone, Copy)]
pub struct MintRecord(pub Record<MINT_RECORD_BYTES>);

impl MintRecord {
    /// `mint` is the key the record must be about; its address is derived from it.
    pub fn load(account: Account, mint: Word, program: Word) -> Result<Self, Fault> {
        let key = mint.load();
        let record = MintRecord(Record::load(account, KIND, &Seeds(&[SEED, &key.0]), program)?);
        require(record.mint().equals(mint), WRONG_ADDRESS)?;
        Ok(record)
    }

    /// Loads a record by the mint it carries.
    pub fn load_any(account: Account, program: Word) -> Result<Self, Fault> {
        account.require_owner(program)?;
        require(account.length() == MINT_RECORD_BYTES, WRONG_ACCOUNT)?;
        MintRecord::load(account, Word::at(unsafe { account.data().add(8) }), program)
    }

    pub fn begin(account: Account, bump: u8) -> Result<Self, Fault> {
        Ok(MintRecord(Record::begin(account, KIND, bump)?))
    }

    pub fn decimals(self) -> u8 {
        self.0.u8::<4>()
    }

    pub fn mint(self) -> Word {
        self.0.word::<8>()
    }

    pub fn token_program(self) -> Word {
        self.0.word::<40>()
    }

    pub fn vault_token(self) -> Word {
        self.0.word::<72>()
    }

    pub fn min_deposit(self) -> u64 {
        self.0.u64::<104>()
    }

    pub fn min_exit(self) -> u64 {
        self.0.u64::<112>()
    }

    pub fn liabilities(self) -> u64 {
        self.0.u64::<120>()
    }

    pub fn raise_liabilities(self, amount: u64) -> Outcome {
        let raised = self.liabilities().checked_add(amount).ok_or(OVERFLOW)?;
        self.0.set_u64::<120>(raised);
        Ok(())
    }

    pub fn lower_liabilities(self, amount: u64) -> Outcome {
        let lowered = self.liabilities().checked_sub(amount).ok_or(PAYOUT_ABOVE_LIABILITIES)?;
        self.0.set_u64::<120>(lowered);
        Ok(())
    }
}
