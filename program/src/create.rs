//! Checks and finds derived addresses, and creates accounts there.
use crate::account::Account;
use crate::bytes::{Bytes32, Word};
use crate::clock::rent_exempt_minimum;
use crate::cpi::{invoke, Outgoing, Use};
use crate::error::*;
use crate::syscalls::{sol_create_program_address, sol_try_find_program_address};

/// The runtime allows 16 seeds; ours are at most a name, a key and the bump.
const SEEDS_MAX: usize = 3;

/// Seeds of a derived address, without the bump.
#[derive(Clone, Copy)]
pub struct Seeds<'a>(pub &'a [&'a [u8]]);

/// Seeds with the bump behind them, for signing and for deriving.
fn with_bump<'a>(seeds: &Seeds<'a>, bump: &'a [u8]) -> ([&'a [u8]; SEEDS_MAX], usize) {
    let mut all = [bump; SEEDS_MAX];
    let mut count = 0;
    for seed in seeds.0 {
        if count < SEEDS_MAX - 1 {
            all[count] = seed;
            count += 1;
        }
    }
    (all, count + 1)
}

/// The account's address is the one derived from `seeds` and `bump`.
pub fn require_derived(account: Account, seeds: &Seeds, bump: u8, program: Word) -> Outcome {
    let bump = [bump];
    let (all, count) = with_bump(seeds, &bump);
    let mut address = Bytes32::ZERO;
    let status = unsafe {
        sol_create_program_address(
            all.as_ptr() as *const u8,
            count as u64,
            program.as_ptr(),
            address.0.as_mut_ptr(),
        )
    };
    require(status == 0, WRONG_ADDRESS)?;
    account.require_key(Word::of(&address))
}

/// The account's address is the canonical one derived from `seeds`; answers its bump.
fn require_canonical(account: Account, seeds: &Seeds, program: Word) -> Result<u8, Fault> {
    let mut address = Bytes32::ZERO;
    let mut bump = 0;
    let status = unsafe {
        sol_try_find_program_address(
            seeds.0.as_ptr() as *const u8,
            seeds.0.len() as u64,
            program.as_ptr(),
            address.0.as_mut_ptr(),
            &mut bump,
        )
    };
    require(status == 0, WRONG_ADDRESS)?;
    account.require_key(Word::of(&address))?;
    Ok(bump)
}

/// Properties of a new account.
pub struct NewAccount<'a> {
    pub seeds: Seeds<'a>,
    pub size: usize,
    pub owner: Word,
    /// Lamports beyond rent.
    pub bond: u64,
}

/// Creates an account at a derived address and answers its bump. Transfer, allocate and assign instead of one
/// `create_account`, which one lamport sent to the address beforehand would block.
pub fn create(payer: Account, account: Account, new: &NewAccount, program: Word) -> Result<u8, Fault> {
    payer.require_signer()?;
    payer.require_writable()?;
    account.require_writable()?;
    let bump = require_canonical(account, &new.seeds, program)?;
    require(account.is_vacant(), ALREADY_INITIALIZED)?;
    let rent = rent_exempt_minimum(new.size as u64)?;
    let wanted = rent.checked_add(new.bond).ok_or(OVERFLOW)?;
    fund(payer, account, wanted.saturating_sub(account.lamports()))?;
    let tail = [bump];
    let (all, count) = with_bump(&new.seeds, &tail);
    let signer = &all[..if count > SEEDS_MAX { SEEDS_MAX } else { count }];
    let target = [Use::write(account).signed()];
    let allocate = system_data(8, new.size as u64);
    invoke(target, &Outgoing { program: Word::zero(), data: &allocate, seeds: signer })?;
    let mut assign = [0u8; 36];
    assign[0] = 1;
    new.owner.copy_to(assign[4..].as_mut_ptr());
    invoke(target, &Outgoing { program: Word::zero(), data: &assign, seeds: signer })?;
    Ok(bump)
}

/// Transfers lamports from a signer.
pub fn fund(payer: Account, account: Account, lamports: u64) -> Outcome {
    if lamports == 0 {
        return Ok(());
    }
    let transfer = system_data(2, lamports);
    let uses = [Use::write(payer).signed(), Use::write(account)];
    invoke(uses, &Outgoing { program: Word::zero(), data: &transfer, seeds: &[] })
}

/// A system instruction: number u32, one u64 argument.
fn system_data(number: u8, argument: u64) -> [u8; 12] {
    let mut data = [0; 12];
    data[0] = number;
    data[4..].copy_from_slice(&argument.to_le_bytes());
    data
}
