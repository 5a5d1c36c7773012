//! The vault program: the sole custodian of a Tacit venue's funds.
//!
//! One file per instruction under `instructions/`; layouts are those of `protocol/vault/` in the client. The program
//! trusts the settlement signer for conservation inside a batch and enforces everything else itself.
#![no_std]

#[macro_use]
mod account;
mod attest;
mod batch;
mod bytes;
mod clock;
mod config;
mod cpi;
mod create;
mod error;
mod escape_claim;
mod event;
mod exit_request;
mod field;
mod hash;
mod heap;
mod input;
mod instructions;
mod known_states;
mod mint_record;
mod note;
mod queue;
mod syscalls;
mod token;
mod tree;

/// Where to report a weakness, in the form that explorers read (`solana-security-txt`): names and values in turn, each ended
/// by a zero.
#[used]
static SECURITY_TXT: [u8; 316] = *b"=======BEGIN SECURITY.TXT V1=======\0\
name\0Tacit vault\0\
project_url\0not published\0\
contacts\0other:the operator of the venue, or the maintainers of the source\0\
policy\0SECURITY.md of the source: report privately, with time for a fix before you publish\0\
preferred_languages\0en\0\
auditors\0None\0\
=======END SECURITY.TXT V1=======\0";

/// Runtime entry: 0 is success, any other value an error (a number below 2^32 is `Custom`).
///
/// # Safety
/// Called by the runtime with its serialized parameters.
#[no_mangle]
pub unsafe extern "C" fn entrypoint(input: *mut u8) -> u64 {
    let (accounts, count, data, program) = match input::parse(input) {
        Ok(parsed) => parsed,
        Err(fault) => return fault.code(),
    };
    let call = input::Call { accounts: &accounts, count, program };
    match instructions::dispatch(&call, data) {
        Ok(()) => 0,
        Err(fault) => fault.code(),
    }
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    syscalls::abort_program()
}
