/** SQLite whose open databases end with their process. Stands in for `bun:sqlite`. */
import { Database as Real } from 'bun:sqlite'

const open = new Set<Database>()

export class Database extends Real {
  constructor(...args: ConstructorParameters<typeof Real>) {
    super(...args)
    open.add(this)
  }
  override close(throws?: boolean): void {
    open.delete(this)
    super.close(throws)
  }
}

/** Those of a process that ended. */
export function takeDatabases(): Database[] {
  const all = [...open]
  open.clear()
  return all
}
