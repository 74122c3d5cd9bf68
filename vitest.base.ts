// Shared by every package's vitest.config.ts: one project, sources instead of builds, no retries.
import { defineProject } from 'vitest/config'

const conditions = ['kvferry-source', 'node', 'import', 'default']

export function testProject(name: string, options: { testTimeoutMs?: number } = {}) {
  return defineProject({
    resolve: { conditions },
    ssr: { resolve: { conditions } },
    test: {
      name,
      include: ['test/**/*.test.ts'],
      testTimeout: options.testTimeoutMs ?? 20_000,
      hookTimeout: options.testTimeoutMs ?? 20_000,
      retry: 0,
    },
  })
}
