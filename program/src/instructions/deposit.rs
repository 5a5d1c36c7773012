//! `deposit`: takes tokens and appends the deposit-form note of exactly that mint and amount.
use crate::bytes::{Reader, Word};
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, DEPOSITED};
use crate::field::require_element;
use crate::heap;
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::mint_record::MintRecord;
use crate::note::deposit_commitment;
use crate::token::read_vault;
use crate::token::transfer::Transfer;
use crate::tree::Trees;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [depositor, source, config, tree, ring, record, mint, vault, token_program, us] = call.exactly()?;
    let (amount, inner) = (data.u64()?, data.word()?);
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load(config, call.program)?;
    config.require_running()?;
    depositor.require_signer()?;
    // An opening fits only a v1 transaction: where no exit request could land there is nothing to exit from.
    require(config.epoch() != 0, STALE_EPOCH)?;
    let trees = Trees::load_writable(tree, config)?;
    let ring = KnownStates::load_writable(ring, config)?;
    let record = MintRecord::load_writable(record, call.program)?;
    mint.require_key(record.mint())?;
    token_program.require_key(record.token_program())?;
    let token = read_vault(vault, record.vault_token(), token_program.key())?;
    source.require_writable()?;
    require(!source.is(vault), SOURCE_IS_VAULT)?;
    require(amount >= record.min_deposit(), BELOW_MIN_DEPOSIT)?;
    require_element(inner)?;

    let before = token.amount();
    Transfer { token_program, from: source, mint, to: vault, amount, decimals: record.decimals() }
        .from_signer(depositor)?;
    require(before.checked_add(amount) == Some(token.amount()), TRANSFER_MISMATCH)?;
    record.raise_liabilities(amount)?;
    record.require_solvent(token.amount())?;

    let leaf_index = trees.leaf_count();
    let commitment = deposit_commitment(mint.key(), amount, inner, leaf_index)?;
    ring.keep(trees)?;
    Word::of(&commitment).copy_to(heap::leaves());
    trees.append(heap::leaves(), 1)?;

    let mut event = Event::begin(DEPOSITED);
    event.u64(leaf_index);
    event.word(mint.key());
    event.u64(amount);
    event.word(inner);
    event.word(Word::of(&commitment));
    event.word(trees.root());
    event.word(depositor.key());
    event.emit(&config, call.program)
}
