//! Lists the Token-2022 extensions that the vault accepts. Extensions that are not listed are refused, so
//! an extension invented later cannot surprise the vault.
use super::TOKEN_ACCOUNT_BYTES;
use crate::account::Account;

/// The account-type byte behind the padding of an extended account.
#[derive(Clone, Copy)]
pub enum Holder {
    Mint = 1,
    TokenAccount = 2,
}

const UNINITIALIZED: u16 = 0;

/// Extensions of a mint that move, block and destroy nothing: confidential transfers between other accounts (4),
/// interest display (10), metadata pointer and metadata (18, 19), group and member pointers and data (20 to 23),
/// scaled display (25). Transfer fee (1), close authority (3), default state (6), non-transferable (9), permanent
/// delegate (12), transfer hook (14), pausable (26) and everything unknown are refused.
fn mint_may_have(extension: u16) -> bool {
    matches!(extension, 4 | 10 | 18..=23 | 25)
}

/// Extensions of a destination that do not hinder a plain transfer: immutable owner (7), CPI guard (11, it concerns
/// outgoing transfers), and required memos (8) while switched off.
fn destination_may_have(extension: u16, value: *const u8, length: usize) -> bool {
    match extension {
        7 | 11 => true,
        8 => length == 1 && unsafe { *value } == 0,
        _ => false,
    }
}

/// True when every extension entry (type u16, length u16, value) is allowed for its holder and the list is well formed.
pub fn every_extension(account: Account, holder: Holder) -> bool {
    let length = account.length();
    if length <= TOKEN_ACCOUNT_BYTES {
        return true;
    }
    let mut at = TOKEN_ACCOUNT_BYTES + 1;
    while at + 4 <= length {
        let (extension, size) = unsafe {
            let entry = account.data().add(at);
            ((entry as *const u16).read_unaligned(), (entry.add(2) as *const u16).read_unaligned() as usize)
        };
        if extension == UNINITIALIZED {
            return true;
        }
        let value = unsafe { account.data().add(at + 4) };
        if at + 4 + size > length {
            return false;
        }
        let allowed = match holder {
            Holder::Mint => mint_may_have(extension),
            Holder::TokenAccount => destination_may_have(extension, value, size),
        };
        if !allowed {
            return false;
        }
        at += 4 + size;
    }
    true
}
