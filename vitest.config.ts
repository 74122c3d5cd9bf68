// One vitest project per package; `pnpm vitest run --project <name>` runs one. Sources are used directly
// (condition kvferry-source), except where a test starts a built binary.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  ssr: { resolve: { conditions: ['kvferry-source', 'node', 'import', 'default'] } },
  resolve: { conditions: ['kvferry-source', 'node', 'import', 'default'] },
  test: {
    projects: [
      'packages/*/vitest.config.ts',
      'benchmarks/vitest.config.ts',
      'tests/*/vitest.config.ts',
    ],
  },
})
