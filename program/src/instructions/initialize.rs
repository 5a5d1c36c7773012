//! `initialize`: creates config, empty trees, empty known states and the payout queue.
use crate::account::record::Record;
use crate::account::Account;
use crate::bytes::{Bytes32, Reader, Word};
use crate::config::{self, Config, CONFIG_BYTES};
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::input::Call;
use crate::known_states::{self, RingData, RING_BYTES};
use crate::queue::{self, Queue, QUEUE_BYTES};
use crate::tree::{self, Trees, TREES_BYTES};
use core::mem::size_of;
use core::ptr::addr_of;

const EXIT_DELAY_MAX_S: u64 = 31_536_000;

/// BPFLoaderUpgradeab1e11111111111111111111111
static UPGRADEABLE_LOADER: Bytes32 = Bytes32([
    0x02, 0xa8, 0xf6, 0x91, 0x4e, 0x88, 0xa1, 0xb0, 0xe2, 0x10, 0x15, 0x3e, 0xf7, 0x63, 0xae, 0x2b, 0x00,
    0xc2, 0xb9, 0x3d, 0x16, 0xc1, 0x24, 0xd2, 0xc0, 0x53, 0x7a, 0x10, 0x04, 0x80, 0x00, 0x00,
]);
/// BPFLoader2111111111111111111111111111111111
static IMMUTABLE_LOADER: Bytes32 = Bytes32([
    0x02, 0xa8, 0xf6, 0x91, 0x4e, 0x88, 0xa1, 0x6e, 0x39, 0x5a, 0xe1, 0x28, 0x94, 0x8f, 0xfa, 0x69, 0x56,
    0x93, 0x37, 0x68, 0x18, 0xdd, 0x47, 0x43, 0x52, 0x21, 0xf3, 0xc6, 0x00, 0x00, 0x00, 0x00,
]);

/// The loader's account of a program: tag 2.
#[repr(C, packed)]
struct LoadedProgram {
    _tag: u32,
    data_address: [u8; 32],
}

/// The loader's account of a program's code: tag 3.
#[repr(C, packed)]
struct ProgramData {
    _tag: u32,
    _slot: u64,
    has_authority: u8,
    authority: [u8; 32],
}

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [deployer, config, tree, ring, queue, program, program_data, system] = call.exactly()?;
    let (admin, exit_delay_s) = (data.word()?, data.u64()?);
    let genesis_hash = data.word()?;
    data.end()?;
    require(exit_delay_s >= 1 && exit_delay_s <= EXIT_DELAY_MAX_S, INVALID_DATA)?;
    require(!admin.is_zero() && !genesis_hash.is_zero(), INVALID_DATA)?;
    system.require_system_program()?;
    require_deployer(deployer, program, program_data, call.program)?;

    let make = |account, seed: &[u8], size| {
        let new = NewAccount { seeds: Seeds(&[seed]), size, owner: call.program, bond: 0 };
        create(deployer, account, &new, call.program)
    };
    let bump = make(config, config::SEED, CONFIG_BYTES)?;
    Trees::begin(tree, make(tree, tree::SEED, TREES_BYTES)?);
    Record::<RingData>::begin(ring, make(ring, known_states::SEED, RING_BYTES)?);
    Queue::begin(queue, make(queue, queue::SEED, QUEUE_BYTES)?);
    let config = Config { record: Record::begin(config, bump), account: config };
    set!(config.record, exit_delay_s, exit_delay_s);
    set_word!(config.record, admin, admin);
    set_word!(config.record, genesis_hash, genesis_hash);
    set_word!(config.record, tree, tree.key());
    set_word!(config.record, ring, ring.key());
    set_word!(config.record, queue, queue.key());
    config.set_venue(call.program);
    Ok(())
}

/// Under the upgradeable loader only the upgrade authority may initialize, so no stranger can become admin between
/// deployment and initialization. An immutable program of the older loader has no authority to ask for.
fn require_deployer(deployer: Account, program: Account, program_data: Account, us: Word) -> Outcome {
    deployer.require_signer()?;
    program.require_key(us)?;
    if program.owner().equals(Word::of(&IMMUTABLE_LOADER)) {
        return program_data.require_key(us);
    }
    let loader = Word::of(&UPGRADEABLE_LOADER);
    program.require_owner(loader)?;
    require(program.length() >= size_of::<LoadedProgram>() && tag(program) == 2, WRONG_ACCOUNT)?;
    let loaded = program.data() as *const LoadedProgram;
    program_data.require_key(Word::at(unsafe { addr_of!((*loaded).data_address) } as *const u8))?;
    program_data.require_owner(loader)?;
    require(program_data.length() >= size_of::<ProgramData>() && tag(program_data) == 3, WRONG_ACCOUNT)?;
    let loaded = program_data.data() as *const ProgramData;
    let has_authority = unsafe { (*loaded).has_authority } == 1;
    let authority = Word::at(unsafe { addr_of!((*loaded).authority) } as *const u8);
    require(has_authority && deployer.key().equals(authority), NOT_DEPLOYER)
}

fn tag(account: Account) -> u32 {
    unsafe { (account.data() as *const u32).read_unaligned() }
}
