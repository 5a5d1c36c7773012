/**
 * Bounds the connections whose ClientHello is incomplete, and the bytes kept of them. Beyond a bound, the oldest connection
 * of the address with the largest share is dropped: usual clients are decided within a round trip, so strangers who only
 * occupy places displace each other. New connections rejected instead would let them lock out everyone.
 */

type Held = { address: Address; bytes: number }
/** The connections of one address, oldest first. */
type Address = { name: string; connections: Set<object>; bytes: number }
type Share = (address: Address) => number

const countOf: Share = ({ connections }) => connections.size
const bytesOf: Share = ({ bytes }) => bytes

type Bounds = { connections: number; bytes: number }

export class Undecided<C extends object> {
  private readonly held = new Map<C, Held>()
  private readonly addresses = new Map<string, Address>()
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

  add(connection: C, name: string): void {
    const address = this.addresses.get(name) ?? { name, connections: new Set(), bytes: 0 }
    this.addresses.set(name, address)
    address.connections.add(connection)
    this.held.set(connection, { address, bytes: 0 })
    if (this.held.size > this.bounds.connections) this.dropOldest(countOf)
  }

  /** Counts further bytes kept of the connection; it may be dropped for them. */
  keep(connection: C, bytes: number): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    held.bytes += bytes
    held.address.bytes += bytes
    this.bytes_total += bytes
    while (this.bytes_total > this.bounds.bytes) this.dropOldest(bytesOf)
  }

  remove(connection: C): void {
    const held = this.held.get(connection)
    if (held === undefined) return
    const { address, bytes } = held
    this.held.delete(connection)
    address.connections.delete(connection)
    address.bytes -= bytes
    this.bytes_total -= bytes
    if (address.connections.size === 0) this.addresses.delete(address.name)
  }

  /** The search visits at most as many addresses as there are connections, and runs only at a bound. */
  private dropOldest(share: Share): void {
    let largest: Address | undefined
    for (const address of this.addresses.values())
      if (largest === undefined || share(address) > share(largest)) largest = address
    const [oldest] = largest!.connections as Set<C>
    this.remove(oldest!)
    this.drop(oldest!)
  }
}
