/** The shim's own tests: its pure part needs no vLLM, so any python3 that vLLM could run on runs them. */
import { execFile, execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const folder = fileURLToPath(new URL('../python', import.meta.url))

/** vLLM needs 3.11; the shim's language features need 3.10. */
const program = 'import sys; print(sys.version_info >= (3, 10))'
const isOldPython = execFileSync('python3', ['-c', program]).toString().trim() !== 'True'
const reason = isOldPython ? ' (skipped: python3 is older than 3.10)' : ''

test.skipIf(isOldPython)(`python3 -m unittest${reason}`, async () => {
  const args = ['-B', '-m', 'unittest', 'discover', '-s', '.', '-t', '.']
  const { stderr } = await promisify(execFile)('python3', args, { cwd: folder, timeout: 110_000 })
  // "Ran 0 tests" would also be a success.
  expect(stderr).toMatch(/Ran [1-9]\d+ tests/)
  expect(stderr).toMatch(/^OK$/m)
})
