// The one tsup configuration of the workspace; each package names its entry points only.
import type { Options } from 'tsup'

export function libraryConfig(entry: Record<string, string>): Options {
  return {
    entry,
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    // Declarations cost ten times the rest and nothing in the workspace reads them (sources are used): they
    // are made for publishing only.
    dts:
      process.env['KVFERRY_BUILD_TYPES'] === '1'
        ? { compilerOptions: { noEmit: false, allowImportingTsExtensions: true } }
        : false,
    clean: true,
    sourcemap: true,
    splitting: true,
    skipNodeModulesBundle: true,
  }
}
