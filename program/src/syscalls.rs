//! Declares the runtime's functions; `link.ts` refuses any name outside its list.

extern "C" {
    fn abort() -> !;
    pub fn sol_memcpy_(to: *mut u8, from: *const u8, length: u64);
    pub fn sol_memset_(to: *mut u8, value: u8, length: u64);
    pub fn sol_memcmp_(a: *const u8, b: *const u8, length: u64, result: *mut i32);
    pub fn sol_poseidon(
        parameters: u64,
        endianness: u64,
        inputs: *const u8,
        count: u64,
        result: *mut u8,
    ) -> u64;
    pub fn sol_sha256(parts: *const u8, count: u64, result: *mut u8) -> u64;
    pub fn sol_get_clock_sysvar(clock: *mut u8) -> u64;
    pub fn sol_get_rent_sysvar(rent: *mut u8) -> u64;
    pub fn sol_get_stack_height() -> u64;
    pub fn sol_create_program_address(
        seeds: *const u8,
        count: u64,
        program: *const u8,
        result: *mut u8,
    ) -> u64;
    pub fn sol_try_find_program_address(
        seeds: *const u8,
        count: u64,
        program: *const u8,
        result: *mut u8,
        bump: *mut u8,
    ) -> u64;
    pub fn sol_invoke_signed_c(
        instruction: *const u8,
        infos: *const u8,
        info_count: u64,
        signers: *const u8,
        signer_count: u64,
    ) -> u64;
}

pub fn abort_program() -> ! {
    unsafe { abort() }
}
