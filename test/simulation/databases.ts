/** SQLite whose open databases end with their process and whose changes count. Stands in for `bun:sqlite`. */
import { Database as Real } from 'bun:sqlite'
import { type Life, ownLife } from './awaits'
import { changes, failure, space } from './changes'

const open = new Map<Database, Life | undefined>()

export class Database extends Real {
  private readonly writes: boolean
  private readonly counted = new WeakSet<object>()

  constructor(path: string, options: ConstructorParameters<typeof Real>[1]) {
    super(path, options)
    this.writes = !(typeof options === 'object' && options.readonly === true)
    changes.venue++
    open.set(this, ownLife())
  }
  override run(...args: Parameters<Real['run']>): ReturnType<Real['run']> {
    changes.venue++
    return super.run(...args)
  }
  override query(sql: string): never {
    const statement = super.query(sql)
    if (this.writes && !this.counted.has(statement) && !/^\s*SELECT/.test(sql)) {
      this.counted.add(statement)
      for (const name of ['run', 'get', 'all'] as const) {
        const real = statement[name].bind(statement) as (...args: unknown[]) => unknown
        const value = (...args: unknown[]) => {
          if (space.isFull) throw failure('SQLITE_FULL')
          changes.venue++
          return real(...args)
        }
        Object.defineProperty(statement, name, { value, configurable: true })
      }
    }
    return statement as never
  }
  override close(throws?: boolean): void {
    open.delete(this)
    super.close(throws)
  }
}

/** Those of a process that ended. */
export function takeDatabases(life: Life): Database[] {
  const own = [...open].filter(([, of]) => of?.isOf(life)).map(([database]) => database)
  for (const database of own) open.delete(database)
  return own
}
