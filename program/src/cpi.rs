//! Calls other programs, and this one, through the runtime's C interface.
use crate::account::Account;
use crate::bytes::Word;
use crate::error::{require, Outcome, CALL_FAILED};
use crate::syscalls::sol_invoke_signed_c;

#[repr(C)]
struct Instruction {
    program: *const u8,
    accounts: *const Meta,
    account_count: u64,
    data: *const u8,
    data_length: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Meta {
    key: *const u8,
    is_writable: bool,
    is_signer: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: *const u8,
    lamports: *mut u64,
    data_length: u64,
    data: *mut u8,
    owner: *const u8,
    rent_epoch: u64,
    is_signer: bool,
    is_writable: bool,
    is_executable: bool,
}

#[repr(C)]
struct Seeds {
    at: *const u8,
    count: u64,
}

/// How a call uses one of our accounts.
#[derive(Clone, Copy)]
pub struct Use {
    pub account: Account,
    pub is_writable: bool,
    pub is_signer: bool,
}

impl Use {
    pub const fn read(account: Account) -> Self {
        Use { account, is_writable: false, is_signer: false }
    }

    pub const fn write(account: Account) -> Self {
        Use { account, is_writable: true, is_signer: false }
    }

    pub const fn signed(self) -> Self {
        Use { is_signer: true, ..self }
    }
}

fn info(account: Account) -> Info {
    Info {
        key: account.key().as_ptr(),
        lamports: account.lamports_at(),
        data_length: account.length() as u64,
        data: account.data(),
        owner: account.owner().as_ptr(),
        rent_epoch: u64::MAX,
        is_signer: account.is_signer(),
        is_writable: account.is_writable(),
        is_executable: account.is_executable(),
    }
}

/// A call to make: with `seeds` (bump included) our derived address signs, without them no signature is added.
pub struct Outgoing<'a> {
    pub program: Word,
    pub data: &'a [u8],
    pub seeds: &'a [&'a [u8]],
}

/// Calls another program with accounts of ours. A failure of the callee ends the whole transaction inside the
/// runtime, so the status check is a second line only.
pub fn invoke<const N: usize>(uses: [Use; N], call: &Outgoing) -> Outcome {
    let metas = uses.map(|one| Meta {
        key: one.account.key().as_ptr(),
        is_writable: one.is_writable,
        is_signer: one.is_signer,
    });
    let infos = uses.map(|one| info(one.account));
    let instruction = Instruction {
        program: call.program.as_ptr(),
        accounts: metas.as_ptr(),
        account_count: N as u64,
        data: call.data.as_ptr(),
        data_length: call.data.len() as u64,
    };
    let signer = Seeds { at: call.seeds.as_ptr() as *const u8, count: call.seeds.len() as u64 };
    let status = unsafe {
        sol_invoke_signed_c(
            &instruction as *const Instruction as *const u8,
            infos.as_ptr() as *const u8,
            N as u64,
            &signer as *const Seeds as *const u8,
            u64::from(!call.seeds.is_empty()),
        )
    };
    require(status == 0, CALL_FAILED)
}
