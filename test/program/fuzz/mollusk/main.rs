//! Runs recorded transactions in Mollusk and prints every difference from the record. Reads records
//! from the standard input, as `second_executor.test.ts` writes them.
use mollusk_svm::Mollusk;
use solana_account::Account;
use solana_instruction::{AccountMeta, Instruction};
use solana_pubkey::Pubkey;
use std::io::{self, BufReader, Read};

const PROGRAM: u8 = 1;
const TRANSACTION: u8 = 2;
const INSTRUCTIONS: Pubkey = Pubkey::from_str_const("Sysvar1nstructions1111111111111111111111111");
/// Needs of the recorded transactions.
const UNIT_LIMIT: u64 = 1_400_000;

struct Records<R>(R);

impl<R: Read> Records<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
    /// None at the end of the records.
    fn kind(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.0.read(&mut byte)? == 1).then_some(byte[0]))
    }
    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    fn number(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn address(&mut self) -> io::Result<Pubkey> {
        Ok(Pubkey::new_from_array(self.array()?))
    }
    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; u32::from_le_bytes(self.array()?) as usize];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
    fn account(&mut self) -> io::Result<Account> {
        let owner = self.address()?;
        let lamports = self.number()?;
        let executable = self.byte()? != 0;
        let data = self.bytes()?;
        Ok(Account { lamports, data, owner, executable, rent_epoch: 0 })
    }
    /// Without the list of instructions, which Mollusk makes itself.
    fn accounts(&mut self) -> io::Result<Vec<(Pubkey, Account)>> {
        let accounts = (0..self.byte()?).map(|_| Ok((self.address()?, self.account()?)));
        let mut accounts = accounts.collect::<io::Result<Vec<_>>>()?;
        accounts.retain(|(address, _)| *address != INSTRUCTIONS);
        Ok(accounts)
    }
    fn instruction(&mut self) -> io::Result<Instruction> {
        let program_id = self.address()?;
        let accounts = (0..self.byte()?).map(|_| {
            let (pubkey, flags) = (self.address()?, self.byte()?);
            Ok(AccountMeta { pubkey, is_signer: flags & 1 != 0, is_writable: flags & 2 != 0 })
        });
        let accounts = accounts.collect::<io::Result<_>>()?;
        Ok(Instruction { program_id, accounts, data: self.bytes()? })
    }
}

/// The difference, if any.
fn compare<R: Read>(
    mollusk: &mut Mollusk,
    records: &mut Records<R>,
    landed: &mut u64,
) -> io::Result<Option<String>> {
    mollusk.sysvars.clock.slot = records.number()?;
    mollusk.sysvars.clock.unix_timestamp = records.number()? as i64;
    let before = records.accounts()?;
    let instructions: Vec<Instruction> =
        (0..records.byte()?).map(|_| records.instruction()).collect::<io::Result<_>>()?;
    let recorded = String::from_utf8_lossy(&records.bytes()?).into_owned();
    let units = records.number()?;
    let after = records.accounts()?;

    // The fee payer is the first; neither its fee nor the rules of a transaction around its instructions are Mollusk's.
    let (payer, _) = before[0];
    let done = mollusk.process_transaction_instructions(&instructions, &before, Some(&payer));
    let result = done.raw_result.map_or_else(|error| format!("{error:?}"), |()| String::new());
    *landed += u64::from(result.is_empty());
    if result != recorded {
        return Ok(Some(format!("ended with '{result}', recorded '{recorded}'")));
    }
    if result.is_empty() && done.compute_units_consumed != units {
        return Ok(Some(format!("used {} units, recorded {units}", done.compute_units_consumed)));
    }
    let differs = |(address, due): &&(Pubkey, Account)| {
        let held = done.resulting_accounts.iter().find(|(known, _)| known == address);
        held.is_none_or(|(_, held)| {
            (held.lamports, held.owner, &held.data) != (due.lamports, due.owner, &due.data)
        })
    };
    Ok(after.iter().find(differs).map(|(address, _)| format!("account {address} differs")))
}

fn main() -> io::Result<()> {
    let mut records = Records(BufReader::with_capacity(1 << 20, io::stdin().lock()));
    let mut mollusk = Mollusk::default();
    mollusk.compute_budget.compute_unit_limit = UNIT_LIMIT;
    let (mut compared, mut landed) = (0, 0);
    while let Some(kind) = records.kind()? {
        match kind {
            PROGRAM => {
                let (id, loader, elf) = (records.address()?, records.address()?, records.bytes()?);
                mollusk.program_cache.add_program(&id, &loader, &elf);
            }
            TRANSACTION => {
                if let Some(difference) = compare(&mut mollusk, &mut records, &mut landed)? {
                    println!("transaction {compared}: {difference}");
                }
                compared += 1;
            }
            _ => return Err(io::Error::other("an unknown record")),
        }
    }
    println!("compared {compared}, landed {landed}");
    Ok(())
}
