/**
 * Once per run: builds the addon and the fake library, and bundles the fixtures, since child processes
 * and worker threads can't load TypeScript. Bundles lie beside the built addon, one folder below the
 * package, where the sources expect to be.
 */
import { readdirSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build as bundle } from 'tsup'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

interface NativeBuild {
  build(options: { addon?: boolean; fake?: boolean }): Promise<void>
}

export default async function setup(): Promise<void> {
  const native = (await import(new URL('../native/build.mjs', import.meta.url).href)) as NativeBuild
  await native.build({ addon: true, fake: true })
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
    noExternal: [/^@kvferry\//],
    outExtension: () => ({ js: '.mjs' }),
    esbuildOptions: (options) => {
      options.conditions = ['kvferry-source']
    },
  })
}
