//! `deposit`: takes tokens and appends the deposit-form note of exactly that mint and amount.
use crate::bytes::{Reader, Word};
use crate::clock::now;
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
use crate::transfer::Transfer;
use crate::tree::NoteTree;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [depositor, source, config, tree, ring, record, mint, vault, token_program, us] = call.exactly()?;
    let (amount, inner) = (data.u64()?, data.word()?);
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load(config, call.program)?;
    config.require_running()?;
    depositor.require_signer()?;
    tree.require_writable()?;
    ring.require_writable()?;
    record.require_writable()?;
    let (tree, ring) = (NoteTree::load(tree, call.program)?, KnownStates::load(ring, call.program)?);
    let record = MintRecord::load(record, mint.key(), call.program)?;
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
    require(token.amount() >= record.liabilities(), INSOLVENT)?;

    let leaf_index = tree.leaf_count();
    let commitment = deposit_commitment(mint.key(), amount, inner, leaf_index)?;
    ring.keep(tree, now()?.slot);
    Word::of(&commitment).copy_to(heap::leaves());
    tree.append(heap::leaves(), 1)?;

    let mut event = Event::begin(DEPOSITED);
    event.u64(leaf_index);
    event.word(mint.key());
    event.u64(amount);
    event.word(inner);
    event.word(Word::of(&commitment));
    event.word(tree.root());
    event.word(depositor.key());
    event.emit(&config, call.program)
}
