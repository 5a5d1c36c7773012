/** The Python package as a trader has it: installed from its wheel, held to the vectors of all clients. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { installClient, PYTHON_CLIENT } from '../kit/python/installed_client'

const installed = await installClient()
const python = 'python' in installed ? installed.python : ''

test.skipIf(python === '')('the wheel computes every vector of a trader', async () => {
  const path = join(PYTHON_CLIENT, 'tests/test_vectors.py')
  const child = Bun.spawn([python, '-P', path], { stdout: 'pipe', stderr: 'pipe' })
  const output = await new Response(child.stderr).text()
  expect(output).toMatch(/Ran 7 tests in [0-9.]+s\n\nOK\n$/)
  expect(await child.exited).toBe(0)
})
