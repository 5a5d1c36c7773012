/** The deployed binary says where to report a weakness, in the form that explorers search for. */
import { expect, test } from 'bun:test'
import { VAULT_SO } from '../../kit/vault/vault_chain'

test('the binary holds one security.txt with every field that its readers demand', () => {
  const parts = VAULT_SO.toString('latin1').split('=======BEGIN SECURITY.TXT V1=======\0')
  expect(parts).toHaveLength(2)
  const [text, rest] = parts[1]!.split('=======END SECURITY.TXT V1=======\0')
  expect(rest).toBeDefined()
  const words = text!.split('\0').slice(0, -1)
  expect(words.length % 2).toBe(0)
  const fields = Object.fromEntries(words.flatMap((name, at) => (at % 2 ? [] : [[name, words[at + 1]]])))
  for (const name of ['name', 'project_url', 'contacts', 'policy']) expect(fields[name]).toBeTruthy()
  expect(fields['contacts']).toMatch(/^(email|link|discord|telegram|twitter|other):./)
})
