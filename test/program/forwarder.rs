//! Calls the program that its first account names with its other accounts and the data behind the first byte. That byte
//! is the bump of this program's address of the seed `multisig`, which then signs wherever it is named, or 0.
#![no_std]

const ACCOUNTS_MAX: usize = 24;
/// Room the runtime leaves behind account data, and the rent epoch.
const BEHIND_DATA: usize = 10_240 + 8;
const NOT_DUPLICATE: u8 = 0xff;

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
struct Instruction {
    program: *const u8,
    accounts: *const Meta,
    account_count: u64,
    data: *const u8,
    data_length: u64,
}

#[repr(C)]
struct Bytes {
    at: *const u8,
    length: u64,
}

extern "C" {
    fn abort() -> !;
    fn sol_create_program_address(seeds: *const u8, count: u64, program: *const u8, address: *mut u8) -> u64;
    fn sol_memcmp_(a: *const u8, b: *const u8, length: u64, result: *mut i32);
    fn sol_invoke_signed_c(
        instruction: *const u8,
        infos: *const u8,
        info_count: u64,
        signers: *const u8,
        signer_count: u64,
    ) -> u64;
}

/// Of one serialized account: marker, signer, writable, executable, 4 bytes, key, owner, lamports, length, data.
unsafe fn info_at(at: *mut u8) -> Info {
    Info {
        key: at.add(8),
        lamports: at.add(72) as *mut u64,
        data_length: (at.add(80) as *const u64).read(),
        data: at.add(88),
        owner: at.add(40),
        rent_epoch: u64::MAX,
        is_signer: *at.add(1) != 0,
        is_writable: *at.add(2) != 0,
        is_executable: *at.add(3) != 0,
    }
}

/// Runtime entry.
///
/// # Safety
/// Called by the runtime with its serialized parameters.
#[no_mangle]
pub unsafe extern "C" fn entrypoint(input: *mut u8) -> u64 {
    let count = (input as *const u64).read() as usize;
    if count == 0 || count > ACCOUNTS_MAX {
        return 1;
    }
    let mut infos = [info_at(input); ACCOUNTS_MAX];
    let mut at = input.add(8);
    let mut index = 0;
    while index < count {
        if *at == NOT_DUPLICATE {
            infos[index] = info_at(at);
            at = at.add(88 + ((infos[index].data_length as usize + 7) & !7) + BEHIND_DATA);
        } else {
            infos[index] = infos[*at as usize % ACCOUNTS_MAX];
            at = at.add(8);
        }
        index += 1;
    }
    let (length, data) = ((at as *const u64).read(), at.add(8));
    if length == 0 {
        return 2;
    }
    let program = data.add(length as usize);
    let seeds = [Bytes { at: b"multisig".as_ptr(), length: 8 }, Bytes { at: data, length: 1 }];
    let mut multisig = [0u8; 32];
    let signs = *data != 0;
    let status = sol_create_program_address(seeds.as_ptr() as *const u8, 2, program, multisig.as_mut_ptr());
    if signs && status != 0 {
        return 3;
    }
    let none = Meta { key: input, is_writable: false, is_signer: false };
    let mut metas = [none; ACCOUNTS_MAX];
    index = 0;
    while index < count {
        let Info { key, is_writable, is_signer, .. } = infos[index];
        let mut difference = 0i32;
        sol_memcmp_(key, multisig.as_ptr(), 32, &mut difference);
        metas[index] = Meta { key, is_writable, is_signer: is_signer || (signs && difference == 0) };
        index += 1;
    }
    let instruction = Instruction {
        program: infos[0].key,
        accounts: metas.as_ptr().add(1),
        account_count: count as u64 - 1,
        data: data.add(1),
        data_length: length - 1,
    };
    let instruction = &instruction as *const Instruction as *const u8;
    let signer = Bytes { at: seeds.as_ptr() as *const u8, length: 2 };
    let signer = &signer as *const Bytes as *const u8;
    sol_invoke_signed_c(instruction, infos.as_ptr() as *const u8, count as u64, signer, u64::from(signs))
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}
