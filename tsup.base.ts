// The one tsup configuration of the workspace; each package names its entry points only.
import type { Options } from 'tsup'

export function libraryConfig(entry: Record<string, string>): Options {
  return {
    entry,
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    dts: { compilerOptions: { noEmit: false, allowImportingTsExtensions: true } },
    clean: true,
    sourcemap: true,
    splitting: true,
    skipNodeModulesBundle: true,
  }
}
