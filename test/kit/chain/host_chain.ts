/** Child process that hosts an embedded chain until it is killed; prints its addresses as one JSON line. */
import { openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'

const [data_dir, slot_ms] = process.argv.slice(2)
const chain = await openEmbeddedChain({ data_dir: data_dir!, slot_ms: Number(slot_ms), finalized_depth: 4 })
console.log(JSON.stringify({ url: chain.url }))
