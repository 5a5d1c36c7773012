/**
 * Bounds the connections whose ClientHello is incomplete, and the bytes kept of them. Beyond a bound, the oldest connection of
 * the network with the largest share is dropped, or the oldest of all while no network has a large one: usual clients are
 * decided within a round trip, so strangers who only occupy places displace each other. New connections rejected instead
 * would let them lock out everyone.
 */

import { NETWORK_SHARE } from '../limits'

type Held = { network: Network; bytes: number }
/** The connections of one network, oldest first. */
type Network = { name: string; connections: Set<object>; bytes: number }
type Bounds = { connections: number; bytes: number }

/**
 * An IPv4 address, also where IPv6 maps it, or the first 64 bits of an IPv6 address: one customer has all addresses below
 * them. The text is a socket's, so equal bits have equal texts.
 */
export function networkOf(address: string): string {
  const ipv4 = address.replace(/^::ffff:/, '')
  if (!ipv4.includes(':')) return ipv4
  const [head, tail = []] = address.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array<string>(8 - head!.length - tail.length).fill('0')
  return [...head!, ...zeros, ...tail].slice(0, 4).join(':')
}

export class Undecided<C extends object> {
  private readonly held = new Map<C, Held>()
  private readonly networks = new Map<string, Network>()
  private bytes_total = 0

  /** `drop` closes a connection that is already removed here. */
  constructor(
    private readonly bounds: Bounds,
    private readonly drop: (connection: C) => void,
  ) {}

  get count(): number {
    return this.held.size
  }

  get bytes(): number {
    return this.bytes_total
  }

  add(connection: C, address: string): void {
    const name = networkOf(address)
    const network = this.networks.get(name) ?? { name, connections: new Set(), bytes: 0 }
    this.networks.set(name, network)
    network.connections.add(connection)
    this.held.set(connection, { network, bytes: 0 })
    if (this.held.size > this.bounds.connections)
      this.dropOldest(({ connections }) => connections.size / this.bounds.connections)
  }

  /** Counts further bytes kept of the connection; it may be dropped for them. */
  keep(connection: C, bytes: number): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    held.bytes += bytes
    held.network.bytes += bytes
    this.bytes_total += bytes
    while (this.bytes_total > this.bounds.bytes)
      this.dropOldest((network) => network.bytes / this.bounds.bytes)
  }

  remove(connection: C): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    const { network, bytes } = held
    this.held.delete(connection)
    network.connections.delete(connection)
    network.bytes -= bytes
    this.bytes_total -= bytes
    if (network.connections.size === 0) this.networks.delete(network.name)
  }

  /** The search visits at most as many networks as there are connections, and runs only at a bound. */
  private dropOldest(shareOf: (network: Network) => number): void {
    let [largest, share] = [undefined as Network | undefined, NETWORK_SHARE]
    for (const network of this.networks.values())
      if (shareOf(network) > share) [largest, share] = [network, shareOf(network)]
    const [oldest] = (largest?.connections as Set<C> | undefined) ?? this.held.keys()
    this.remove(oldest!)
    this.drop(oldest!)
  }
}
