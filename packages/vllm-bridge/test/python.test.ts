/** The shim's own tests: its pure part needs no vLLM, so any python3 runs them. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const folder = fileURLToPath(new URL('../python', import.meta.url))

test('python3 -m unittest', async () => {
  const args = ['-B', '-m', 'unittest', 'discover', '-s', '.', '-t', '.']
  const { stderr } = await promisify(execFile)('python3', args, { cwd: folder, timeout: 60_000 })
  // "Ran 0 tests" would also be a success.
  expect(stderr).toMatch(/Ran [1-9]\d+ tests/)
  expect(stderr).toMatch(/^OK$/m)
}, 70_000)
