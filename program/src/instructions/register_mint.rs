//! `register_mint`: a mint's record, liability counter and vault token account.
use crate::account::record::Record;
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::create::{create, NewAccount, Seeds};
use crate::error::*;
use crate::input::Call;
use crate::mint_record::{self, MintRecord, MINT_RECORD_BYTES};
use crate::token::transfer::initialize_token_account;
use crate::token::{read_mint, require_token_program, Mint, TOKEN_ACCOUNT_BYTES};

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [admin, payer, config, record, mint, vault, token_program, system] = call.exactly()?;
    let (min_deposit, min_exit) = (data.u64()?, data.u64()?);
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    config.require_admin(admin)?;
    require(!config.is_frozen(), VAULT_FROZEN)?;
    require(min_deposit != 0 && min_exit != 0, INVALID_DATA)?;
    system.require_system_program()?;
    require_token_program(token_program)?;
    let facts = read_mint(mint, token_program.key())?;
    let index = get!(config.record, mint_count);
    let next = index.checked_add(1).ok_or(TOO_MANY_MINTS)?;

    let key = mint.key().load();
    let record_new = NewAccount {
        seeds: Seeds(&[mint_record::SEED, &key.0]),
        size: MINT_RECORD_BYTES,
        owner: call.program,
        bond: 0,
    };
    let bump = create(payer, record, &record_new, call.program)?;
    let vault_new = NewAccount {
        seeds: Seeds(&[mint_record::VAULT_SEED, &key.0]),
        size: TOKEN_ACCOUNT_BYTES,
        owner: token_program.key(),
        bond: 0,
    };
    let vault_bump = create(payer, vault, &vault_new, call.program)?;
    initialize_token_account(token_program, vault, mint, config.account.key())?;

    let record = MintRecord(Record::begin(record, bump));
    write(record, index, &facts, vault_bump);
    set_word!(record.0, mint, Word::of(&key));
    set_word!(record.0, token_program, token_program.key());
    set_word!(record.0, vault_token, vault.key());
    set!(record.0, min_deposit, min_deposit);
    set!(record.0, min_exit, min_exit);
    set!(config.record, mint_count, next);
    Ok(())
}

fn write(record: MintRecord, index: u16, facts: &Mint, vault_bump: u8) {
    set!(record.0, vault_bump, vault_bump);
    set!(record.0, decimals, facts.decimals);
    set!(record.0, freezable, u8::from(facts.freezable));
    set!(record.0, mint_index, index);
}
