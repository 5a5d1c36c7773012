//! Reads mints and token accounts of both token programs.
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::error::*;
use core::mem::size_of;
use core::ptr::addr_of;
use extensions::{every_extension, Holder};

mod extensions;
pub mod payout_mint;
pub mod transfer;

/// TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA
static TOKEN: Bytes32 = Bytes32([
    0x06, 0xdd, 0xf6, 0xe1, 0xd7, 0x65, 0xa1, 0x93, 0xd9, 0xcb, 0xe1, 0x46, 0xce, 0xeb, 0x79, 0xac, 0x1c,
    0xb4, 0x85, 0xed, 0x5f, 0x5b, 0x37, 0x91, 0x3a, 0x8c, 0xf5, 0x85, 0x7e, 0xff, 0x00, 0xa9,
]);
/// TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb
static TOKEN_2022: Bytes32 = Bytes32([
    0x06, 0xdd, 0xf6, 0xe1, 0xee, 0x75, 0x8f, 0xde, 0x18, 0x42, 0x5d, 0xbc, 0xe4, 0x6c, 0xcd, 0xda, 0xb6,
    0x1a, 0xfc, 0x4d, 0x83, 0xb9, 0x0d, 0x27, 0xfe, 0xbd, 0xf9, 0x28, 0xd8, 0xa1, 0x8b, 0xfc,
]);

/// A mint as both token programs store it.
#[repr(C, packed)]
struct MintData {
    _authority: [u8; 36],
    _supply: u64,
    decimals: u8,
    initialized: u8,
    /// Not zero when a freeze authority is set.
    freezable: u32,
    _freeze_authority: [u8; 32],
}

/// A token account as both token programs store it.
#[repr(C, packed)]
struct TokenAccountData {
    mint: [u8; 32],
    _owner: [u8; 32],
    amount: u64,
    _delegate: [u8; 36],
    state: u8,
    _native_and_close: [u8; 56],
}

const MINT_BYTES: usize = size_of::<MintData>();
pub const TOKEN_ACCOUNT_BYTES: usize = size_of::<TokenAccountData>();
const _: () = assert!(MINT_BYTES == 82 && TOKEN_ACCOUNT_BYTES == 165);
/// A token account of this size would be a multisig; Token-2022 pads extended accounts away from it.
const MULTISIG_BYTES: usize = 355;
const INITIALIZED: u8 = 1;

pub fn require_token_program(account: Account) -> Outcome {
    let key = account.key();
    require(key.equals(Word::of(&TOKEN)) || key.equals(Word::of(&TOKEN_2022)), WRONG_ADDRESS)
}

fn is_extensible(token_program: Word) -> bool {
    token_program.equals(Word::of(&TOKEN_2022))
}

/// Base size, or extended with the account-type byte of its holder behind the padding.
fn has_form(account: Account, base: usize, holder: Holder, token_program: Word) -> bool {
    let length = account.length();
    if length == base {
        return true;
    }
    let extended = length > TOKEN_ACCOUNT_BYTES && length != MULTISIG_BYTES;
    extended
        && is_extensible(token_program)
        && unsafe { *account.data().add(TOKEN_ACCOUNT_BYTES) } == holder as u8
}

/// Facts of an acceptable mint.
pub struct Mint {
    pub decimals: u8,
    pub freezable: bool,
}

pub fn read_mint(account: Account, token_program: Word) -> Result<Mint, Fault> {
    account.require_owner(token_program)?;
    require(has_form(account, MINT_BYTES, Holder::Mint, token_program), UNSUPPORTED_MINT)?;
    let (decimals, initialized, freezable) = unsafe {
        let data = account.data() as *const MintData;
        ((*data).decimals, (*data).initialized, addr_of!((*data).freezable).read_unaligned() != 0)
    };
    require(initialized == INITIALIZED, MINT_UNINITIALIZED)?;
    require(every_extension(account, Holder::Mint), UNSUPPORTED_MINT)?;
    Ok(Mint { decimals, freezable })
}

#[derive(Clone, Copy)]
pub struct TokenAccount(Account);

#[derive(Clone, Copy, PartialEq)]
pub enum TokenState {
    Uninitialized,
    Initialized,
    Frozen,
}

impl TokenAccount {
    /// None when the account is no token account of this program at all.
    pub fn read(account: Account, token_program: Word) -> Option<Self> {
        let ours = account.owner().equals(token_program)
            && has_form(account, TOKEN_ACCOUNT_BYTES, Holder::TokenAccount, token_program);
        ours.then_some(TokenAccount(account))
    }

    fn at(self) -> *const TokenAccountData {
        self.0.data() as *const TokenAccountData
    }

    pub fn mint(self) -> Word {
        Word::at(unsafe { addr_of!((*self.at()).mint) } as *const u8)
    }

    pub fn amount(self) -> u64 {
        unsafe { addr_of!((*self.at()).amount).read_volatile() }
    }

    pub fn state(self) -> TokenState {
        match unsafe { addr_of!((*self.at()).state).read_volatile() } {
            1 => TokenState::Initialized,
            2 => TokenState::Frozen,
            _ => TokenState::Uninitialized,
        }
    }

    /// False when an extension would make the token program refuse a plain incoming transfer.
    pub fn accepts_transfers(self) -> bool {
        every_extension(self.0, Holder::TokenAccount)
    }
}

/// The vault's own token account of a mint, which must be the recorded one.
pub fn read_vault(account: Account, recorded: Word, token_program: Word) -> Result<TokenAccount, Fault> {
    account.require_key(recorded)?;
    account.require_writable()?;
    TokenAccount::read(account, token_program).ok_or(WRONG_OWNER)
}
