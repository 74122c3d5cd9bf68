import { defineConfig } from 'tsup'
import { libraryConfig } from '../../tsup.base.ts'

export default defineConfig(
  libraryConfig({
    index: 'src/index.ts',
  }),
)
