/** Checks a value against its schema and names the first fault as a refusal, for requests and for frames alike. */
import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { REFUSALS, Refusal, type RefusalCode } from '../protocol/refusals'
import type { RefusalHint } from './_wire'

const RANK = new Map(REFUSALS.map((entry, index) => [entry.code, index]))
/** A value of 16 KB can hold thousands of faults; the earliest codes stand among the first. */
const FAULTS_MAX = 64

export type Form<S extends TSchema> = {
  /** The same value, typed. Throws Refusal with the fault's `field`; never the value, never a name the caller chose. */
  check(value: unknown): Static<S>
  fits(value: unknown): boolean
}

/** Compiles on first use, so that a process answers before all schemas are compiled. `root` names the value itself. */
export function formOf<S extends TSchema>(schema: S, root = 'body'): Form<S> {
  let compiled: TypeCheck<S> | undefined
  const compile = () => {
    compiled ??= TypeCompiler.Compile(schema)
    return compiled
  }
  return {
    fits: (value) => compile().Check(value),
    check(value) {
      if (!compile().Check(value)) throw faultOf(schema, value, root)
      return value as Static<S>
    },
  }
}

function faultOf(schema: TSchema, value: unknown, root: string): Refusal {
  const branch = branchOf(schema, value)
  let worst: { code: RefusalCode; field: string } | undefined
  let seen = 0
  for (const error of TypeCompiler.Compile(branch).Errors(value)) {
    const code = codeOf(error)
    if (worst === undefined || RANK.get(code)! < RANK.get(worst.code)!) {
      worst = { code, field: fieldOf(error, root) }
    }
    seen += 1
    if (seen >= FAULTS_MAX) break
  }
  return new Refusal(worst?.code ?? 'field_invalid', { field: worst?.field ?? root })
}

/** A body that is one object or a list of them is judged as what it is, so that the fault names a field. */
function branchOf(schema: TSchema, value: unknown): TSchema {
  const branches = schema['anyOf'] as TSchema[] | undefined
  if (branches === undefined) return schema
  const wanted = Array.isArray(value) ? 'array' : 'object'
  return branches.find((candidate) => candidate['type'] === wanted) ?? schema
}

function codeOf(error: ValueError): RefusalCode {
  const hints = (error.schema as Partial<RefusalHint>)['x-refusal']
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return 'field_missing'
    case ValueErrorType.ObjectAdditionalProperties:
      return 'field_unknown'
    case ValueErrorType.StringFormat:
      return matchesPattern(error) ? (hints?.format ?? 'field_invalid') : 'field_invalid'
    case ValueErrorType.ArrayMinItems:
    case ValueErrorType.ArrayMaxItems:
      return hints?.items ?? 'field_invalid'
    default:
      return 'field_invalid'
  }
}

function matchesPattern(error: ValueError): boolean {
  const pattern = error.schema['pattern'] as string | undefined
  return pattern === undefined || new RegExp(pattern).test(String(error.value))
}

/** `/replacement/continuation_anchors/0` is written `replacement.continuation_anchors[0]`. */
function fieldOf(error: ValueError, root: string): string {
  const steps = error.path.split('/').slice(1)
  // The name of an unknown field is the caller's text, so only the object that holds it is named.
  if (error.type === ValueErrorType.ObjectAdditionalProperties) steps.pop()
  let field = ''
  for (const step of steps) {
    if (/^[0-9]+$/.test(step)) field += `[${step}]`
    else field += field === '' ? step : `.${step}`
  }
  return field === '' ? root : field
}
