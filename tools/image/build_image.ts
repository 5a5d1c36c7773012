/**
 * `bun run image --base NAME@sha256:DIGEST [--builder buildah|docker] [--bun FILE] [--out FILE]`: builds the image twice
 * from nothing, requires equal digests, and writes an OCI archive to push. Prints the digest compose.yaml then names.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { buildImageInputs, commitOf, committedDockerfile, SOURCE_DATE_EPOCH } from './build_image_inputs'

const ROOT = join(import.meta.dir, '../..')
const BASE = /^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$/
/** The bytes of the image also depend on BuildKit. */
const BUILDKIT = 'moby/buildkit:v0.20.2'
const TAG = 'localhost/tacit:reproduced'
/** The committed one; the work tree's may have other line ends. */
const DOCKERFILE = join(ROOT, 'dist/image/Dockerfile')

type Builder = { build(base: string): void; save(archive: string): void }

const BUILDERS: Record<'buildah' | 'docker', (archive: string) => Builder> = {
  buildah: () => ({
    build: (base) =>
      run(
        'buildah',
        'build',
        '--no-cache',
        '--pull=never',
        '--timestamp',
        String(SOURCE_DATE_EPOCH),
        '--build-arg',
        `BASE_IMAGE=${base}`,
        '--file',
        DOCKERFILE,
        '--ignorefile',
        '.dockerignore',
        '--tag',
        TAG,
        '.',
      ),
    save: (archive) => run('buildah', 'push', '--quiet', TAG, `oci-archive:${archive}`),
  }),
  docker: (archive) => ({
    build: (base) =>
      run(
        'docker',
        'buildx',
        'build',
        '--builder',
        builderOfDocker(),
        '--no-cache',
        '--file',
        DOCKERFILE,
        '--provenance=false',
        '--build-arg',
        `BASE_IMAGE=${base}`,
        '--build-arg',
        `SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}`,
        '--output',
        `type=oci,dest=${archive},rewrite-timestamp=true`,
        '.',
      ),
    save: () => undefined,
  }),
}

function builderOfDocker(): string {
  const name = 'tacit-reproducible'
  if (Bun.spawnSync(['docker', 'buildx', 'inspect', name]).exitCode !== 0)
    run('docker', 'buildx', 'create', '--name', name, '--driver-opt', `image=${BUILDKIT}`)
  return name
}

function run(...command: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync(command, { cwd: ROOT })
  if (exitCode !== 0) throw new Error(`${command.slice(0, 3).join(' ')}: ${stderr.toString().trim()}`)
  return stdout.toString()
}

/** The manifest's digest, as the archive's index names it. */
function digestOf(archive: string): string {
  const { manifests } = JSON.parse(run('tar', '--extract', '--to-stdout', '--file', archive, 'index.json'))
  if (manifests.length !== 1) throw new Error('the archive must have exactly one image')
  return manifests[0].digest
}

/** @throws Error when the two builds differ. */
function buildTwice(base: string, kind: 'buildah' | 'docker', archive: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-image-'))
  try {
    const [first, second] = [join(folder, 'first.tar'), archive].map((path) => {
      const builder = BUILDERS[kind](path)
      builder.build(base)
      builder.save(path)
      return digestOf(path)
    })
    if (first !== second) throw new Error(`two builds differ: ${first} and ${second}`)
    return first!
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const USAGE = `usage: bun run image --base NAME@sha256:DIGEST [--builder buildah|docker] [--bun FILE] [--out FILE]
Builds the image twice and refuses unequal digests. --bun names the Bun binary of the image, --out the archive.`

await runCommand(USAGE, (args) => {
  const options = new Options(args, { texts: ['base', 'builder', 'bun', 'out'] })
  const base = options.text('base', '')
  const builder = options.text('builder', Bun.which('buildah') === null ? 'docker' : 'buildah')
  const bun = options.text('bun', process.execPath)
  const out = options.text('out', join(ROOT, 'dist/image/tacit.oci.tar'))
  if (!BASE.test(base))
    throw new UsageFault('--base NAME@sha256:DIGEST: a tag may name another image tomorrow')
  if (builder !== 'buildah' && builder !== 'docker') throw new UsageFault('--builder is buildah or docker')
  const inputs = join(ROOT, 'dist/image/inputs.tar')
  mkdirSync(dirname(inputs), { recursive: true })
  writeFileSync(inputs, buildImageInputs(bun))
  writeFileSync(DOCKERFILE, committedDockerfile(ROOT))
  rmSync(out, { force: true })
  console.log(`commit   ${commitOf(ROOT)}\nbase     ${base}`)
  console.log(`archive  ${out}\ndigest   ${buildTwice(base, builder, out)}`)
})
