//! Numbers the errors. `protocol/vault/errors.ts` holds the same list with meanings; a test compares both.

use core::num::NonZeroU32;

/// Never zero, so that an outcome is one register.
#[derive(Clone, Copy)]
pub struct Fault(NonZeroU32);

impl Fault {
    pub const fn code(self) -> u64 {
        self.0.get() as u64
    }
}

pub type Outcome = Result<(), Fault>;

/// Refuses with `fault` unless `condition` holds.
#[inline(always)]
pub fn require(condition: bool, fault: Fault) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(fault)
    }
}

macro_rules! faults {
    ($($code:literal $name:ident)*) => { $(pub const $name: Fault = match NonZeroU32::new($code) {
        Some(code) => Fault(code),
        None => panic!("zero means success"),
    };)* };
}

faults! {
    7000 UNKNOWN_INSTRUCTION
    7002 INVALID_DATA
    7003 MISSING_ACCOUNTS
    7004 MISSING_SIGNATURE
    7005 NOT_WRITABLE
    7007 WRONG_OWNER
    7008 WRONG_ADDRESS
    7009 WRONG_ACCOUNT
    7010 ALREADY_INITIALIZED
    7011 NOT_DEPLOYER
    7012 NOT_TOP_LEVEL
    7013 NOT_ADMIN
    7014 NOT_SETTLEMENT_SIGNER
    7015 NOT_EMITTER
    7016 OVERFLOW
    7017 UNSUPPORTED_SYSVAR
    7018 CALL_FAILED
    7020 VAULT_PAUSED
    7021 VAULT_FROZEN
    7023 NOT_PAUSED
    7024 VAULT_NOT_FROZEN
    7030 UNSUPPORTED_MINT
    7031 MINT_UNINITIALIZED
    7032 TOO_MANY_MINTS
    7033 BELOW_MIN_DEPOSIT
    7034 BELOW_MIN_EXIT
    7035 TRANSFER_MISMATCH
    7036 SOURCE_IS_VAULT
    7040 NOT_FIELD_ELEMENT
    7041 TREE_FULL
    7042 HASH_FAILED
    7050 EPOCH_OUT_OF_SEQUENCE
    7051 STALE_EPOCH
    7052 BATCH_OUT_OF_SEQUENCE
    7053 UNKNOWN_STATE
    7054 JOURNAL_REGRESSED
    7055 JOURNAL_CONFLICT
    7056 NOT_ASCENDING
    7058 SPENT_ROOT_MISMATCH
    7059 WRONG_GENERATION
    7060 PAYOUT_ABOVE_LIABILITIES
    7061 INSOLVENT
    7062 PAYOUT_MISMATCH
    7063 QUEUE_FULL
    7064 QUEUE_CANNOT_GROW
    7065 REFUND_NOT_DUE
    7066 ANCHOR_EXPIRED
    7067 COMMIT_REGRESSED
    7070 INVALID_INCLUSION
    7071 INVALID_SPENT_PROOF
    7072 UNKNOWN_SPENT_ROOT
    7074 DEADLINE_NOT_REACHED
    7077 EXIT_ALREADY_REQUESTED
    7078 EXIT_SERVED
    7079 EXIT_OPEN
    7080 NOTHING_PENDING
    7081 NOT_EFFECTIVE
    7082 RESTORE_NOT_AUTHORIZED
    7083 OUTAGE_TOO_SOON
    7090 ALREADY_CLAIMED
    7091 CLAIM_CLOSED
    7092 PAYMENT_NOT_DUE
    7093 DESTINATION_UNUSABLE
    7094 PAYMENT_SHORT
    7095 WRONG_SEQUENCE
    7100 NOT_ANNOUNCED
    7101 NOT_RAISED
}
