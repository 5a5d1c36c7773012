/** Replaces single values of a compose file and leaves every other byte as it is. */

/**
 * @param assignments `NAME=VALUE`; `image` or a setting.
 * @throws RangeError for a name that does not stand exactly once, or a value no single-quoted scalar can hold.
 */
export function fillIn(compose: string, assignments: readonly string[]): string {
  return assignments.reduce((text, assignment) => {
    const at = assignment.indexOf('=')
    const [name, value] = [assignment.slice(0, at), assignment.slice(at + 1)]
    if (at < 1 || !/^[A-Za-z_]+$/.test(name)) throw new RangeError(`${assignment}: expected NAME=VALUE`)
    if (!/^[\x20-\x7e]*$/.test(value) || value.includes("'"))
      throw new RangeError(`${name}: printable ASCII without single quotes`)
    const line = new RegExp(`^( +${name}:) .*$`, 'gm')
    if (text.match(line)?.length !== 1) throw new RangeError(`${name}: does not stand exactly once`)
    // A secret is named, not quoted: the form the linter knows.
    const written = value === `\${${name}}` ? value : `'${value}'`
    return text.replace(line, (_whole, key: string) => `${key} ${written}`)
  }, compose)
}
