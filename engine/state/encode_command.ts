/** Encodes a command for the journal. */
import type { Command } from '../commands'
import { ByteWriter } from './byte_stream'
import { codecOf } from './command_codec'

/** Type byte, `unix_ms` in 8 bytes, then the body (engine/state/command_codec.ts). */
export function encodeCommand(command: Command): Uint8Array {
  const { type, codec } = codecOf(command.kind)
  const to = new ByteWriter()
  to.byte(type)
  to.uint(command.unix_ms)
  codec.write(to, command)
  return to.done()
}
