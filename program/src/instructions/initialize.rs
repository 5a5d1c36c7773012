//! `initialize`: config, empty note tree, empty spent tree and empty known states.
use crate::account::Account;
use crate::bytes::{Bytes32, Reader, Word};
use crate::config::{self, Config, ConfigData};
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::input::Call;
use crate::known_states::{self, KnownStates, RING_BYTES};
use crate::note::spent_leaf;
use crate::poseidon::poseidon_into;
use crate::syscalls::sol_get_stack_height;
use crate::tree::{self, empty_subtree, NoteTree, DEPTH, TREE_BYTES};
use core::mem::size_of;
use core::ptr::addr_of;

/// Zeros behind the fields. They make the instruction larger than any transaction but a v1 one, so the vault cannot
/// come to life on a cluster where no escape, which needs about as much, could ever land.
const PADDING: usize = 2_816 - 73;
const TOP_LEVEL: u64 = 1;
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
    let [deployer, config, tree, ring, program, program_data, system] = call.exactly()?;
    let (admin, signer, exit_delay_s) = (data.word()?, data.word()?, data.u64()?);
    data.take(PADDING)?;
    data.end()?;
    // An inner instruction may be larger than the transaction that caused it, which would void the size proof.
    require(unsafe { sol_get_stack_height() } == TOP_LEVEL, NOT_TOP_LEVEL)?;
    require(exit_delay_s >= 1 && exit_delay_s <= EXIT_DELAY_MAX_S, INVALID_DATA)?;
    require(!admin.is_zero() && !signer.is_zero(), INVALID_DATA)?;
    system.require_system_program()?;
    require_deployer(deployer, program, program_data, call.program)?;

    let make = |account, seed: &[u8], size| {
        let new = NewAccount { seeds: Seeds(&[seed]), size, owner: call.program, bond: 0 };
        create(deployer, account, &new, call.program)
    };
    let bump = make(config, config::SEED, size_of::<ConfigData>())?;
    NoteTree::begin(tree, make(tree, tree::SEED, TREE_BYTES)?)?;
    KnownStates::begin(ring, make(ring, known_states::SEED, RING_BYTES)?)?;
    let config = Config::begin(config, bump)?;
    set!(config.record, exit_delay_s, exit_delay_s);
    set_word!(config.record, admin, admin);
    set_word!(config.record, settlement_signer, signer);
    set_empty_spent_root(config)
}

/// The spent tree starts with leaf 0 = Poseidon(5, 0, 0), the head of its list.
fn set_empty_spent_root(config: Config) -> Outcome {
    let mut node = spent_leaf(Word::zero(), Word::zero())?;
    let at = node.0.as_mut_ptr();
    let mut height = 0;
    while height < DEPTH {
        poseidon_into([Word::at(at), empty_subtree(height)], at)?;
        height += 1;
    }
    set_word!(config.record, spent_root, Word::at(at));
    Ok(())
}

/// Under the upgradeable loader only the upgrade authority may initialize, so nobody can name himself admin between
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
