import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { connectorErrorCodes } from '@kvferry/connector-api'

const page = new URL('../../../docs/reference/errors.md', import.meta.url)

test('every error code has one heading in the docs, and no heading is left over', () => {
  const headings = [...readFileSync(page, 'utf8').matchAll(/^## (\S+)$/gm)].map((match) => match[1])
  expect(headings.sort()).toEqual([...connectorErrorCodes].sort())
})
