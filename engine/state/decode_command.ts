/** Decodes a command of the journal. */
import type { Command } from '../commands'
import { ByteReader, CodecError } from './byte_stream'
import { codecOf, KINDS } from './command_codec'

/** @throws CodecError unless the bytes are exactly one encoded command. */
export function decodeCommand(bytes: Uint8Array): Command {
  const from = new ByteReader(bytes)
  const kind = KINDS[from.byte()]
  if (kind === undefined) throw new CodecError('the type of a command is not known')
  const unix_ms = from.uint()
  const body = codecOf(kind).codec.read(from)
  from.done()
  return Object.assign(body, { kind, unix_ms }) as Command
}
