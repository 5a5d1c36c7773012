/** Exit requests of a simulation: for any note that stands on chain, and for spent ones, which are refused. */
import type { Note } from '../../engine/state/note'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { noteInner, nullifierOf } from '../../protocol/notes'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import { refuseExitInstruction } from '../../protocol/vault/refuse_exit'
import { requestExitInstruction } from '../../protocol/vault/request_exit'
import type { OpenNote } from './holdings'
import type { Simulation } from './simulation'

type Asked = OpenNote & { form: 'settlement' | 'deposit' }

/** Asks for a note that may be free, back a live order, or be unknown to the venue. */
export async function exitAnyNote(simulation: Simulation): Promise<void> {
  if (!(await simulation.quiesce())) throw new Error('the chain and the venue never come to rest')
  const { venue, random, holdings } = simulation
  const known = [...venue.state.notes.values()].filter(
    ({ status }) => status === 'free' || status === 'in_use',
  )
  const open = known.flatMap((note) => openingOf(simulation, note) ?? [])
  const unopened = [...holdings.unopened.values()].map((one): Asked => ({ ...one, form: 'deposit' }))
  const note = random.pick([...open, ...unopened])
  if (note === undefined || simulation.chain.data(accountOf(simulation, note)) !== undefined) return
  await request(simulation, note)
}

/** A request for a spent note is closed by whoever proves it. */
export async function exitSpentNote(simulation: Simulation): Promise<void> {
  if (!(await simulation.quiesce())) throw new Error('the chain and the venue never come to rest')
  const { venue, random, chain } = simulation
  const open = simulation.spent.flatMap((note) => openingOf(simulation, note) ?? [])
  const note = random.pick(open.filter(({ nullifier }) => venue.state.nullifiers.has(nullifier)))
  if (note === undefined || chain.data(accountOf(simulation, note)) !== undefined) return
  await request(simulation, note)
  const { leaf, siblings, present } = venue.trees.spent.witness(note.nullifier)
  const root = venue.trees.spent.root()
  const { spent_root } = chain.vault().config
  // A batch that the slot of the request packed is not on chain yet: later requests are refused instead.
  if (!present || !equalBytes(root, spent_root)) return
  const { program } = chain
  const { key: refuser, seed } = simulation.wallet
  const { index: leaf_index, next_value } = leaf
  const proof = { cited_spent_root: root, next_value, leaf_index, path: siblings }
  const { nullifier } = note
  await chain.send(refuseExitInstruction({ program, refuser, nullifier, ...proof }), [seed])
  const events = await simulation.tick()
  if (!events.some(({ kind }) => kind === 'exit_refused')) throw new Error('a spent note was not refused')
  simulation.counts.set('refused exits', (simulation.counts.get('refused exits') ?? 0) + 1)
}

const accountOf = ({ chain }: Simulation, { nullifier }: OpenNote): Uint8Array =>
  exitRequestAddress(chain.program, nullifier)

/** What its owner knows of a note of the venue's, once it stands in the finalized tree. */
function openingOf({ venue, traders }: Simulation, note: Note): Asked | undefined {
  const { state } = venue
  const owner = traders.findIndex(({ key }) => encodeBase58(key) === note.owner)
  if (owner === -1 || note.commitment === undefined || note.blinding === undefined) return undefined
  const commitment = Uint8Array.fromHex(note.commitment)
  const leaf_index = state.leaves.indexOf(commitment)
  if (leaf_index === undefined) return undefined
  const { blinding, amount } = note
  const nullifier = nullifierOf(commitment, blinding)
  // Outputs of a settlement carry no leaf index in their commitment.
  const form = note.leaf_index === undefined ? 'settlement' : 'deposit'
  const { bytes: mint } = state.mints[note.mint]!
  return { owner, mint, amount, blinding, leaf_index, commitment, nullifier, form }
}

async function request(simulation: Simulation, note: Asked): Promise<void> {
  const { chain, venue, random, traders, refund_blindings } = simulation
  const { owner, mint, amount, blinding, leaf_index, nullifier, form } = note
  const { key, seed } = traders[owner]!
  const { notes } = venue.trees
  const refund_blinding = random.element()
  refund_blindings.set(toHex(nullifier), { owner, blinding: refund_blinding })
  const { key: payer, seed: payer_seed } = simulation.wallet
  const instruction = requestExitInstruction({
    program: chain.program,
    owner: key,
    payer,
    mint,
    opening: { form, amount, blinding, leaf_index },
    nullifier,
    cited_leaf_count: notes.leaf_count,
    cited_root: notes.root(),
    destination: random.pick(simulation.payees.get(toHex(mint))!)!,
    refund_inner: noteInner(key, refund_blinding),
    path: notes.siblings(leaf_index),
  })
  await chain.send(instruction, [payer_seed, seed])
  await simulation.tick()
}
