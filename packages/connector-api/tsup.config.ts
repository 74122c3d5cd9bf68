import { defineConfig } from 'tsup'
import { libraryConfig } from '../../tsup.base.ts'

export default defineConfig(
  libraryConfig({
    index: 'src/index.ts',
    'protocol/index': 'src/protocol/index.ts',
    'remote-writes/index': 'src/remote-writes/index.ts',
    'testing/index': 'src/testing/index.ts',
    'conformance/index': 'src/conformance/index.ts',
  }),
)
