/** Encodes a command for the journal. */
import type { Command } from '../commands'
import { ByteWriter } from './byte_stream'
import { codecOf } from './command_codec'

/** One for all commands: what is written is copied out at once. */
const writer = new ByteWriter()

/** Type byte, `unix_ms` in 8 bytes, then the body (engine/state/command_codec.ts). */
export function encodeCommand(command: Command): Uint8Array {
  const { type, codec } = codecOf(command.kind)
  writer.begin()
  writer.byte(type)
  writer.uint(command.unix_ms)
  codec.write(writer, command)
  return writer.done()
}
