/** Decodes a command of the journal. */
import type { Command } from '../commands'
import { ByteReader, CodecError } from './byte_stream'
import { codecOf, KINDS } from './command_codec'

/**
 * With signatures `skipped` those of places and cancels come back empty: what the journal holds was verified before.
 * @throws CodecError unless the bytes are exactly one encoded command.
 */
export function decodeCommand(bytes: Uint8Array, signatures: 'read' | 'skipped' = 'read'): Command {
  const from = new ByteReader(bytes, signatures === 'read')
  const kind = KINDS[from.byte()]
  if (kind === undefined) throw new CodecError('the type of a command is not known')
  const unix_ms = from.uint()
  const command = codecOf(kind).codec.read(from) as { kind: string; unix_ms: number }
  from.done()
  command.kind = kind
  command.unix_ms = unix_ms
  return command as Command
}
