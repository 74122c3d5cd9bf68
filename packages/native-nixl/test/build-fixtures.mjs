/**
 * Builds the addon and the fakes, and bundles the fixtures, since child processes and worker threads can't load TypeScript.
 * Bundles lie beside the built addon, one folder below the package, where the sources expect to be. Plain JavaScript: the
 * GPU scripts of the repository use it without a test runner.
 */
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build as bundle } from 'tsup'
import { build } from '../native/build.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

/** Answers the folder. */
export async function buildFixtures() {
  await build({ addon: true, fake: true })
  const fixtures = readdirSync(here('fixtures')).map((file) => [
    basename(file, '.ts'),
    here(`fixtures/${file}`),
  ])
  await bundle({
    // Also the command: child processes start it as the installed one is started.
    entry: { ...Object.fromEntries(fixtures), cli: here('../src/cli.ts') },
    outDir: here('../build'),
    tsconfig: here('../tsconfig.json'),
    config: false,
    format: ['esm'],
    target: 'node20',
    platform: 'node',
    splitting: false,
    clean: false,
    silent: true,
    external: ['commander', 'vitest'],
    noExternal: [/^@kvferry\//, 'fast-check'],
    outExtension: () => ({ js: '.mjs' }),
    esbuildOptions: (options) => {
      options.conditions = ['kvferry-source']
    },
  })
  return here('../build')
}
