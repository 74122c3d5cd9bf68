import { defineConfig } from 'tsup'
import { libraryConfig } from '../../tsup.base.ts'

export default defineConfig(
  libraryConfig({
    index: 'src/index.ts',
    cli: 'src/cli.ts',
    'core-worker': 'src/core/core-worker.ts',
  }),
)
