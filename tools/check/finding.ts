/** One violation of a rule, and the line that reports it: place, rule, reason and next step. */

export type Finding = {
  readonly file: string
  readonly line: number
  readonly rule: string
  /** The violation, and why it matters in half a sentence. */
  readonly fault: string
  readonly fix: string
}

/** `file:line  rule  fault. Next: fix.` */
export function findingText({ file, line, rule, fault, fix }: Finding): string {
  return `${file}:${line}  ${rule}\n    ${fault}.\n    Next: ${fix}.`
}

export function byPlace(a: Finding, b: Finding): number {
  return compareTexts(a.file, b.file) || a.line - b.line || compareTexts(a.rule, b.rule)
}

export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
