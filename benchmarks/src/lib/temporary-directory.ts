/**
 * Temporary directories that go on every way out: by `remove`, or, when the process is cut short, in its
 * exit hook. Only SIGKILL of this process leaves one behind.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TemporaryDirectory {
  readonly path: string
  /** Idempotent. */
  remove(): void
}

const existing = new Set<string>()
let hasExitHook = false

function remove(path: string): void {
  existing.delete(path)
  rmSync(path, { recursive: true, force: true })
}

export function createTemporaryDirectory(): TemporaryDirectory {
  if (!hasExitHook) {
    hasExitHook = true
    process.on('exit', () => existing.forEach(remove))
  }
  const path = mkdtempSync(join(tmpdir(), 'kvferry-bench-'))
  existing.add(path)
  return { path, remove: () => remove(path) }
}
