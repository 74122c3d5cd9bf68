import { defineConfig } from 'tsup'
import { libraryConfig } from '../tsup.base.ts'

export default defineConfig(
  libraryConfig({
    index: 'src/index.ts',
    cli: 'src/cli.ts',
    'gpus-child': 'src/gpus/child.ts',
    'micro-child': 'src/micro/child.ts',
    'micro-paths-child': 'src/micro/paths-child.ts',
    'micro-router-engines': 'src/micro/router-engines-child.ts',
  }),
)
