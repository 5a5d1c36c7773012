/** Owns how an instruction's account list is written down: names and roles as plain data. */

/** One account of an instruction, ready for any transaction library. `address`: 32 bytes. */
export type InstructionAccount = { address: Uint8Array; signer: boolean; writable: boolean }

/** One place in an instruction's account list. */
export type AccountRole = { name: string; signer: boolean; writable: boolean }

/** Places an instruction's accounts in order by name. */
export function listAccounts<const Roles extends readonly AccountRole[]>(
  roles: Roles,
  addresses: Readonly<Record<Roles[number]['name'], Uint8Array>>,
): InstructionAccount[] {
  const by_name: Readonly<Record<string, Uint8Array>> = addresses
  return roles.map(({ name, signer, writable }) => {
    const address = by_name[name]
    if (address?.length !== 32) throw new RangeError(`account ${name} is not 32 bytes`)
    return { address, signer, writable }
  })
}
