// Shared by every package's vitest.config.ts: one project, sources instead of builds, no retries.
import { defineProject } from 'vitest/config'

/**
 * Only a hang is to meet these: on a busy machine everything may take twenty times as long, and that is no
 * failure of what is tested.
 */
const hangMs = 120_000
const pollMs = 60_000

const conditions = ['kvferry-source', 'node', 'import', 'default']

export interface TestProjectOptions {
  readonly testTimeoutMs?: number
  /**
   * A process for each file, for tests that look at what their process holds. Without it the files share
   * their workers' modules: to load them again for every file costs a third of the whole run.
   */
  readonly isolate?: boolean
}

export function testProject(name: string, options: TestProjectOptions = {}) {
  return defineProject({
    resolve: { conditions },
    ssr: { resolve: { conditions } },
    test: {
      name,
      isolate: options.isolate ?? false,
      include: ['test/**/*.test.ts'],
      testTimeout: options.testTimeoutMs ?? hangMs,
      hookTimeout: options.testTimeoutMs ?? hangMs,
      expect: { poll: { timeout: pollMs } },
      retry: 0,
    },
  })
}
