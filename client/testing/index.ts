/** Collects what tests of a trader's program need, `tacit-client/testing`: a real venue behind a network that fails on demand. */
export { type Fault, FaultyTransport } from './faulty_transport'
