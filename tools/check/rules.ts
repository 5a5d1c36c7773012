/**
 * The map of the house, as data: each folder, its subject and its allowed imports. Everything a maintainer adjusts is in
 * this file; the other files of this folder only apply it.
 */

export type Cell = {
  /** A folder, or a file without its extension. The longest match decides which cell a file belongs to. */
  readonly folder: string
  /** Its subject; messages quote it. */
  readonly owns: string
  /** Folders and files that code here may import; its own cell is always allowed. `*` is everything but `test`. */
  readonly values: readonly string[]
  /** Further ones that are allowed as `import type`. */
  readonly types?: readonly string[]
  /** Further ones that are allowed as `import()` only, so that a process loads them only when it needs them. */
  readonly later?: readonly string[]
  /** Files that are started as processes by their path. */
  readonly starts?: readonly string[]
  /** Packages and platform modules, as prefixes. Absent: every one that `PACKAGE_OWNERS` does not give to others. */
  readonly modules?: readonly string[]
  /** The cell owns only the files directly in it: a new folder below needs its own cell. */
  readonly flat?: true
  /** Its files do not import each other. */
  readonly apart?: true
}

const ENGINE_FACE = ['engine/index', 'engine/venue', 'engine/ports', 'engine/commands', 'engine/limits']
const ENCLAVE_FACE = ['enclave/index', 'enclave/contract', 'enclave/contract', 'enclave/limits']
const VERIFIER = [
  'client/verify/judge_evidence',
  'client/verify/policy',
  'client/verify/tdx/collateral',
  'client/verify/collect/collect_collateral',
]
/** Types that every part of the engine shares. */
const CONTRACTS = ['engine/ports', 'engine/commands', 'engine/config', 'engine/venue']

/** The parts that the sequencer runs. */
const RUNNING = [
  'protocol',
  'engine/limits',
  'engine/memory',
  'engine/machine',
  'engine/intake',
  'engine/journal',
  'engine/stores',
  'engine/history',
  'engine/hashing',
  'engine/streams',
  'engine/reads',
]

export const CELLS: readonly Cell[] = [
  {
    folder: 'protocol',
    owns: 'the bytes both sides agree on',
    values: [],
    modules: ['@noble/', '@sinclair/typebox', 'age-encryption', 'poseidon-lite/', 'bs58', 'node:crypto'],
  },
  { folder: 'native', owns: 'compiled Poseidon and Ed25519', values: ['protocol'] },
  {
    folder: 'routes',
    owns: 'one endpoint per file',
    values: ['server/edge', 'server/sockets', 'server/limits', 'protocol'],
    types: [...ENGINE_FACE, ...ENCLAVE_FACE],
    apart: true,
  },
  {
    folder: 'server',
    owns: 'HTTP, sockets, settings and the process',
    // The venue judges its own machine by the verifier that clients run: one set of rules.
    values: [...ENGINE_FACE, ...ENCLAVE_FACE, ...VERIFIER, 'protocol', 'package.json', 'server/manifest.gen'],
    types: ['engine/config'],
    later: ['sandbox'],
  },
  { folder: 'server/manifest.gen', owns: 'the list of the routes', values: ['routes'] },
  { folder: 'enclave', owns: 'keys, quotes, evidence and TLS', values: ['protocol'] },
  {
    folder: 'client',
    owns: 'the package that a trader runs',
    values: ['protocol', 'native', 'client/audit/audit_batch'],
  },
  {
    folder: 'client/audit/audit_batch',
    owns: "auctions of an export or a file, held again by the venue's own code",
    values: ['protocol', 'engine/machine/book', 'client/verify'],
  },
  {
    folder: 'examples',
    owns: 'programs that a trader starts from',
    values: ['client/index', 'client/chain/index'],
  },
  { folder: 'sandbox', owns: 'the simulators for development, never in the image', values: ['*'] },
  { folder: 'program', owns: 'the vault program and its build', values: ['protocol'] },
  { folder: 'tools', owns: "operators' and developers' commands", values: ['*'] },
  { folder: 'bench', owns: 'every published number', values: ['*'] },
  { folder: 'test', owns: 'tests', values: ['*'] },

  // The engine: contracts first, then from the bottom up.
  { folder: 'engine/limits', owns: 'every bound of the engine', values: ['protocol'] },
  {
    folder: 'engine/ports',
    owns: 'the interfaces that the engine needs from outside',
    values: ['protocol'],
    types: CONTRACTS,
  },
  { folder: 'engine/commands', owns: 'the commands of the machine', values: ['protocol'], types: CONTRACTS },
  {
    folder: 'engine/config',
    owns: 'the configuration and its checks',
    values: ['protocol', 'engine/limits', 'engine/machine/book'],
    types: CONTRACTS,
  },
  { folder: 'engine/venue', owns: 'the calls of the venue', values: ['protocol'], types: CONTRACTS },
  { folder: 'engine/memory', owns: 'slabs and tables', values: ['protocol'] },
  {
    folder: 'engine/machine/book',
    owns: 'the order book and the auction',
    values: ['protocol', 'engine/memory', 'engine/limits'],
    modules: [],
  },
  {
    folder: 'engine/machine/state',
    owns: 'the state of the venue',
    values: ['protocol', 'engine/memory', 'engine/limits', 'engine/machine/book'],
    types: CONTRACTS,
    modules: [],
  },
  {
    folder: 'engine/machine/settlement',
    owns: 'the batches that settle',
    values: ['protocol', 'engine/memory', 'engine/limits', 'engine/machine/state'],
    types: CONTRACTS,
    modules: [],
  },
  {
    folder: 'engine/machine/rules',
    owns: 'the decisions: decide, apply, execute',
    values: ['protocol', 'engine/memory', 'engine/limits', 'engine/machine'],
    types: CONTRACTS,
    modules: [],
  },
  {
    folder: 'engine/machine/codec',
    owns: 'the bytes of commands and snapshots',
    values: ['protocol', 'engine/memory', 'engine/limits', 'engine/machine'],
    types: CONTRACTS,
    modules: [],
  },
  {
    folder: 'engine/intake',
    owns: 'the rules and signatures of requests',
    values: [
      'protocol',
      'native',
      'engine/limits',
      'engine/memory',
      'engine/machine/book',
      'engine/machine/state/instrument',
      'engine/machine/state/past',
      'engine/machine/rules',
    ],
    types: [...CONTRACTS, 'engine/machine'],
  },
  {
    folder: 'engine/journal',
    owns: 'durable records and snapshot files',
    values: ['protocol', 'engine/limits', 'engine/memory'],
    types: ['engine/machine/codec', 'engine/ports'],
  },
  {
    folder: 'engine/cluster',
    owns: 'the replicated log',
    values: ['protocol', 'engine/limits', 'engine/memory', 'engine/journal'],
  },
  {
    folder: 'engine/stores',
    owns: 'rows on disk that have left the state',
    values: ['protocol', 'engine/limits', 'engine/memory', 'engine/journal', 'engine/machine'],
    types: CONTRACTS,
  },
  {
    folder: 'engine/snapshots',
    owns: 'the thread that makes snapshots',
    values: [
      'protocol',
      'engine/limits',
      'engine/memory',
      'engine/journal',
      'engine/stores',
      'engine/history',
      'engine/machine',
      'engine/sequencer',
    ],
    types: [...CONTRACTS, 'engine/reads'],
  },
  {
    folder: 'engine/audit',
    owns: 'the thread that exports a batch to the auditor',
    values: [
      'protocol',
      'engine/limits',
      'engine/journal',
      'engine/machine',
      'engine/sequencer',
      'engine/snapshots/make_snapshot',
    ],
    types: CONTRACTS,
  },
  {
    folder: 'engine/history',
    owns: 'past events and answers',
    values: ['protocol', 'engine/limits', 'engine/memory', 'engine/journal/disk'],
    types: ['engine/ports'],
  },
  {
    folder: 'engine/hashing',
    owns: 'the thread that hashes notes and trees',
    values: ['protocol', 'native', 'engine/limits', 'engine/memory', 'engine/journal/disk'],
    types: ['engine/ports'],
  },
  {
    folder: 'engine/streams',
    owns: 'the fan-out of events',
    values: ['protocol', 'engine/limits', 'engine/history'],
    types: [...CONTRACTS, 'engine/sequencer'],
  },
  {
    folder: 'engine/reads',
    owns: 'answers to questions',
    values: ['protocol', 'engine/limits', 'engine/memory', 'engine/history'],
    types: [...CONTRACTS, 'engine/machine', 'engine/sequencer'],
  },
  {
    folder: 'engine/accounts',
    owns: 'accounts, passphrases and tokens',
    values: ['protocol', 'engine/limits'],
    types: [...CONTRACTS, 'engine/sequencer'],
  },
  {
    folder: 'engine/chain',
    owns: 'everything Solana on the server',
    values: [
      'protocol',
      'engine/limits',
      'engine/chain/client',
      'engine/chain/watch',
      'engine/chain/relayer',
    ],
    types: ['engine/ports'],
    flat: true,
  },
  {
    folder: 'engine/chain/client',
    owns: 'RPC, transactions and fees',
    values: ['protocol', 'engine/limits', 'engine/ports'],
  },
  {
    folder: 'engine/chain/watch',
    owns: 'the watchers of the chain',
    values: ['protocol', 'engine/limits', 'engine/chain/client'],
    types: ['engine/ports'],
  },
  {
    folder: 'engine/chain/relayer',
    owns: 'the settlement relayer',
    values: ['protocol', 'engine/limits', 'engine/chain/client', 'engine/chain/watch'],
    types: ['engine/ports'],
  },
  {
    folder: 'engine/sequencer',
    owns: 'the one writer: sequence, receipts, outbox',
    values: RUNNING,
    types: CONTRACTS,
  },
  {
    folder: 'engine/boot',
    owns: 'load, replay, restore, open and stop',
    values: [
      ...RUNNING,
      'engine/accounts',
      'engine/audit',
      'engine/cluster',
      'engine/sequencer',
      'engine/snapshots',
      'engine/ports',
    ],
    types: CONTRACTS,
  },
  {
    folder: 'engine/methods',
    owns: 'the calls of the venue, on a node that leads and on one that follows',
    values: ['protocol', 'engine'],
  },
  {
    folder: 'engine',
    owns: 'the door of the venue',
    values: ['protocol', 'engine'],
    flat: true,
  },
]

/** Code that only a test may load. */
export const TEST_FOLDER = 'test'

/** Packages that only these folders import: a framework that leaks everywhere cannot be replaced. */
export const PACKAGE_OWNERS: Readonly<Record<string, readonly string[]>> = {
  'age-encryption': ['protocol'],
  '@noble/ciphers': ['client/wallet'],
  elysia: ['server', 'test', 'bench'],
  '@elysiajs/swagger': ['server'],
  '@solana/kit': ['engine/chain', 'client/chain', 'sandbox', 'test', 'bench', 'tools'],
  litesvm: ['sandbox', 'test', 'bench'],
  '@phala/dcap-qvl': ['test', 'bench'],
  'oxc-parser': ['tools/check'],
}

/** Folders that no user runs: their files may import `devDependencies`. */
export const DEVELOPMENT_FOLDERS: readonly string[] = ['test', 'bench', 'sandbox', 'tools']
/** Fields of package.json that give a module a second name, so that its imports show another one. */
export const ALIAS_FIELDS: readonly string[] = [
  'imports',
  'workspaces',
  'overrides',
  'resolutions',
  'browser',
]
/** The same in `compilerOptions` and at the top of tsconfig.json. */
export const ALIAS_OPTIONS: readonly string[] = ['paths', 'baseUrl', 'rootDirs', 'extends', 'references']

/** Files that load a file or package whose name only the run knows, and why. */
export const COMPUTED_IMPORTS: Readonly<Record<string, string>> = {
  'bench/book.ts': 'it loads the package of the folder that its user names, and of no other project',
  'native/build.ts': 'it reads the parameters of poseidon-lite, which no entry of the package exports',
  'test/client/face.test.ts': 'it loads the package by the names that package.json exports',
  'test/kit/chain/break_chain.ts': 'it wraps the worker of the platform, to break the chain that runs in it',
  'test/cluster/version.test.ts': 'it loads the machine of another build, which it makes',
  'tools/dev.ts': 'it loads each route of routes/, to say which one does not load',
}

/** Folders whose code gives the same result on every machine and in every replay. */
export const PURE_FOLDERS: readonly string[] = ['engine/machine']
/** Names that files of pure code read from the platform, as `file chain.of.members`, and why no result depends on them. */
export const IMPURE_BY_CHOICE: Readonly<Record<string, string>> = {
  'protocol/sha256.ts globalThis.Bun.SHA256':
    'the native SHA-256 computes the same function as the portable one, which runs where it is missing',
}
/** Exports of packages that pure code may run: functions that depend on their arguments alone. */
export const PURE_PACKAGES: Readonly<Record<string, readonly string[]>> = {
  '@noble/hashes/sha2.js': ['sha256'],
  bs58: ['default'],
  'poseidon-lite/poseidon1': ['poseidon1'],
  'poseidon-lite/poseidon2': ['poseidon2'],
  'poseidon-lite/poseidon3': ['poseidon3'],
  'poseidon-lite/poseidon4': ['poseidon4'],
  'poseidon-lite/poseidon5': ['poseidon5'],
}
/** Names that pure code may take from the platform: values and functions that depend on their arguments alone. */
export const PURE_GLOBALS: ReadonlySet<string> = new Set(
  `undefined NaN Infinity Object Array String Number Boolean BigInt Symbol Math Map Set
  Error RangeError TypeError ArrayBuffer DataView Uint8Array Uint16Array Uint32Array Int8Array Int16Array Int32Array
  Float64Array BigInt64Array BigUint64Array JSON TextEncoder TextDecoder parseInt structuredClone arguments`.split(
    /\s+/,
  ),
)
/**
 * Members that pure code may read of these globals. The others of `Math` are chance, or rounded differently by other
 * machines; those of `Object`, `Array` and `Error` reach a hidden name, wait, or read the call stack.
 */
export const PURE_MEMBERS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['Math', new Set('abs ceil clz32 floor fround imul max min round sign sqrt trunc'.split(' '))],
  ['Object', new Set('assign entries freeze fromEntries hasOwn is keys values'.split(' '))],
  ['Array', new Set('from isArray of'.split(' '))],
  ['Error', new Set()],
  ['RangeError', new Set()],
  ['TypeError', new Set()],
])
/** Members that depend on the locale of the machine. */
export const LOCALE_MEMBERS = /^(localeCompare|toLocale[A-Za-z]*)$/
/** Members through which code reaches the platform without naming it, and the text of the call stack. */
export const OPENING_MEMBERS: ReadonlySet<string> = new Set(
  `constructor __proto__ __lookupGetter__ __lookupSetter__ __defineGetter__ __defineSetter__ getPrototypeOf
  setPrototypeOf getOwnPropertyDescriptor getOwnPropertyDescriptors getOwnPropertyNames stack captureStackTrace
  prepareStackTrace stackTraceLimit`.split(/\s+/),
)
/** Members that wait: the rest of the step would run after other commands. */
export const WAITING_MEMBERS: ReadonlySet<string> = new Set(['then', 'catch', 'finally', 'fromAsync'])
/** The meaning of each forbidden name, for the message. */
export const IMPURE_MEANING: Readonly<Record<string, string>> = {
  Date: 'the clock',
  performance: 'the clock',
  random: 'chance',
  crypto: 'chance',
  process: 'the process',
  Bun: 'the process',
  setTimeout: 'a timer',
  setInterval: 'a timer',
  setImmediate: 'a timer',
  queueMicrotask: 'a timer',
  fetch: 'the network',
  Promise: 'the scheduler',
  console: 'the terminal',
}

export const LIMITS = { file_lines: 500, function_lines: 70, folder_entries: 25, columns: 130 } as const

/** Folders with more entries than `LIMITS.folder_entries`, and why. */
export const LARGE_FOLDERS: Readonly<Record<string, string>> = {
  'test/vectors': 'byte vectors, one file per case',
  'test/golden': 'recorded answers, one file per case',
}

/** Functions longer than `LIMITS.function_lines`, as `file name` (or `file top level`), and why one reads them as a whole. */
export const LONG_FUNCTIONS: Readonly<Record<string, string>> = {}

/** Files that a command writes: their size, names and neighbours follow from their source. */
export const GENERATED: readonly string[] = ['server/manifest.gen.ts']

/** Folders whose files are named after paths of the specification, not in snake_case. */
export const FREELY_NAMED: readonly string[] = ['routes']
/** Words that name nothing. */
export const EMPTY_NAMES = /(^|_)(utils?|helpers?|managers?|misc|common|stuff)(_|\.|$)/

/** Folders of the documents whose headings are cited, also by the bare name of the file: `protocol.md "Order of checks"`. */
export const DOCUMENT_FOLDERS: readonly string[] = ['docs/design', 'docs']
/** Folders whose texts a user reads in the reference: their strings are checked as comments are. */
export const DOCUMENTED_FOLDERS: readonly string[] = ['routes', 'protocol/wire']
/** Names of files that comments and documents mention and that belong to others or exist only at run time. */
export const FOREIGN_FILES: readonly RegExp[] = [
  /^vmm-cli\.py$/,
  /^rpc-client-api\//,
  /^\/(app|usr|etc)\//,
  /^(dist|data)\/.*\.(json|html)$/,
]
/** Documents about files of the past. */
export const HISTORIES: readonly string[] = ['CHANGELOG.md']
/** Words that leave the subject of a comment open (house.md "Language"); no comment begins with "What". */
export const HABITS =
  /\b(told|whoever|whatever|somebody|nobody|anew|for ever|let go|of (its|their|his) own)\b|^\W*What\b/i
/** Words that mark unfinished work. */
export const UNFINISHED = /\b(TODO|FIXME|XXX|HACK|not implemented|lorem ipsum)\b/i
