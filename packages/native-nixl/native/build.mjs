/**
 * Builds the native half: the addon, the fake NIXL and the fake CUDA driver, and the C++ tests. Plain Node, no dependencies and no
 * downloads: the compiler of the system, and the Node-API headers of two npm packages. Used by the
 * project's set-up, by tests, and by hand. What hasn't changed isn't compiled again (units.mjs), so a second run takes
 * milliseconds. Outputs appear by rename: whoever loads one never sees half of it.
 *
 *   node native/build.mjs [--addon] [--addon-asan] [--fake] [--tests plain|asan|tsan [--run]] [--debug] [--each]
 *
 * Without arguments: the addon and the fakes. `--addon-asan` is a second addon, for a Node with the sanitizer's
 * runtime preloaded; its objects are those of the tests. `--each` compiles every file by itself, not in batches.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  compilerEnv,
  compileUnits,
  hashOf,
  isCurrent,
  keyOf,
  runCompiler,
  temporary,
  unitsOf,
} from './units.mjs'

const nativeDir = dirname(fileURLToPath(import.meta.url))
const buildDir = join(nativeDir, '..', 'build')

/** Where each target ends up. */
export const outputs = {
  addon: join(buildDir, 'Release', 'kvferry_nixl.node'),
  addonAsan: join(buildDir, 'asan', 'kvferry_nixl.node'),
  fake: join(buildDir, 'fake', 'libfake_nixl_capi.so'),
  fakeCuda: join(buildDir, 'fake', 'libfake_cuda.so'),
  testsOf: (sanitizer) => join(buildDir, `test-${sanitizer}`, 'native_test'),
  fakeForTestsOf: (sanitizer) => join(buildDir, `test-${sanitizer}`, 'libfake_nixl_capi.so'),
}

const commonFlags = ['-std=c++17', '-Wall', '-Wextra', '-Wshadow', '-Werror', '-fPIC', '-pthread']
const sanitizerFlags = {
  plain: ['-O2', '-g', '-fvisibility=hidden'],
  // Unoptimised: the compiler takes a third of the time, and the tests take seconds either way.
  asan: [
    ...['-O0', '-g1', '-fno-omit-frame-pointer', '-fvisibility=hidden'],
    ...['-fsanitize=address,undefined', '-fno-sanitize-recover=all'],
  ],
  tsan: ['-O0', '-g1', '-fvisibility=hidden', '-fsanitize=thread'],
}
/** Node itself isn't instrumented and has no type information of its own to check against. */
const besideNode = ['-fno-sanitize=vptr']
const addonDefines = [
  '-DNAPI_VERSION=8',
  '-DNAPI_DISABLE_CPP_EXCEPTIONS',
  '-DNODE_ADDON_API_REQUIRE_BASIC_FINALIZERS',
  '-DNODE_GYP_MODULE_NAME=kvferry_nixl',
]

/** The C++ compiler to use. Throws an Error that says what to install. */
export function findCompiler() {
  const candidates = process.env['CXX'] ? [process.env['CXX']] : ['g++', 'c++', 'clang++']
  for (const candidate of candidates) {
    try {
      const options = { encoding: 'utf8', stdio: 'pipe', env: compilerEnv }
      const version = execFileSync(candidate, ['--version'], options)
      return { command: candidate, version: version.split('\n')[0] ?? '' }
    } catch {
      // Not there: the next one.
    }
  }
  throw new Error(
    `No C++ compiler: tried ${candidates.join(', ')}. Install one (Debian and Ubuntu: ` +
      '`apt-get install g++`; Fedora: `dnf install gcc-c++`), or name it in CXX.',
  )
}

/** Include flags of the Node-API headers; -isystem, so that their warnings aren't ours. */
function nodeApiIncludes() {
  const require = createRequire(import.meta.url)
  const addonApi = dirname(require.resolve('node-addon-api/package.json'))
  const headers = join(dirname(require.resolve('node-api-headers/package.json')), 'include')
  return ['-isystem', addonApi, '-isystem', headers]
}

const sources = (folder) =>
  existsSync(join(nativeDir, folder))
    ? readdirSync(join(nativeDir, folder))
        .filter((file) => file.endsWith('.cc'))
        .sort()
        .map((file) => join(nativeDir, folder, file))
    : []

/** Compiles what changed and links. Answers true if the output is new. */
async function buildTarget({ output, groups, linkFlags, compiler, isEach }) {
  mkdirSync(dirname(output), { recursive: true })
  const units = groups.flatMap(({ name, files, flags }) =>
    unitsOf({ files, flags, folder: join(buildDir, 'objects', name), compiler, isEach }),
  )
  await compileUnits(units, compiler)
  const linkKey = hashOf(...linkFlags, ...units.map(keyOf))
  const stamp = `${output}.stamp`
  if (isCurrent(output, stamp, linkKey)) return false
  const inputs = units.map(({ object }) => object)
  await runCompiler(compiler.command, [...inputs, '-o', temporary(output), ...linkFlags])
  renameSync(temporary(output), output)
  writeFileSync(stamp, linkKey)
  return true
}

/**
 * Builds the chosen targets. `tests` is 'plain', 'asan' or 'tsan'. Returns the paths of what was asked for.
 * Throws an Error with the compiler's own words.
 */
export async function build({
  addon = false,
  addonAsan = false,
  fake = false,
  tests = null,
  debug = false,
  each = false,
  log = () => {},
} = {}) {
  const compiler = findCompiler()
  const made = {}
  const target = async (name, output, groups, linkFlags) => {
    const startedAt = process.hrtime.bigint()
    const isNew = await buildTarget({ output, groups, linkFlags, compiler, isEach: each })
    const ms = Number((process.hrtime.bigint() - startedAt) / 1_000_000n)
    const size = `${Math.ceil(statSync(output).size / 1024)} KiB`
    log(`${isNew ? 'built' : 'up to date'}: ${relative(process.cwd(), output)} (${size}, ${ms} ms)`)
    made[name] = output
  }
  const group = (folder, kind, flags) => ({
    name: `${folder === '.' ? 'core' : folder}-${kind}`,
    files: sources(folder),
    flags: [...commonFlags, ...flags],
  })
  const shared = ['-shared', '-pthread']
  const buildAddon = (name, output, kind, optimisationFlags, napiFlags = []) => {
    const napi = [...optimisationFlags, ...napiFlags, ...addonDefines, ...nodeApiIncludes()]
    const groups = [group('.', kind, optimisationFlags), group('napi', kind, napi)]
    // Node unloads an addon with the last worker that used it; threads and exit handlers must survive that.
    const linkFlags = [...optimisationFlags, ...shared, '-ldl', '-Wl,-z,nodelete']
    return target(name, output, groups, linkFlags)
  }
  const kind = debug ? 'debug' : 'release'
  const optimisation = [...(debug ? ['-O0', '-g'] : ['-O2']), '-fvisibility=hidden']
  if (addon) await buildAddon('addon', outputs.addon, kind, optimisation)
  if (addonAsan) {
    await buildAddon('addon-asan', outputs.addonAsan, 'asan', sanitizerFlags.asan, besideNode)
  }
  if (fake) {
    const flags = [...optimisation, '-fno-strict-aliasing']
    await target('fake', outputs.fake, [group('fake-nixl', kind, flags)], shared)
    await target('fake-cuda', outputs.fakeCuda, [group('fake-cuda', kind, flags)], shared)
  }
  if (tests !== null) {
    const flags = sanitizerFlags[tests]
    if (flags === undefined) throw new Error(`--tests takes plain, asan or tsan, not ${tests}`)
    const fakes = [group('fake-nixl', tests, flags)]
    await target(`fake-${tests}`, outputs.fakeForTestsOf(tests), fakes, [...flags, ...shared])
    const groups = [group('.', tests, flags), group('test', tests, flags)]
    await target(`test-${tests}`, outputs.testsOf(tests), groups, [...flags, '-pthread', '-ldl'])
  }
  return made
}

/** Runs built tests, output passed through; the last line is `N passed, N failed`. Answers the exit code. */
export async function runTests(sanitizer) {
  const binary = outputs.testsOf(sanitizer)
  // TSan places its shadow at fixed addresses, where newer kernels may have put something else.
  const command =
    sanitizer === 'tsan' && existsSync('/usr/bin/setarch')
      ? ['/usr/bin/setarch', '-R', binary]
      : [binary]
  const env = { ...process.env, UBSAN_OPTIONS: 'print_stacktrace=1' }
  const child = spawn(command[0], command.slice(1), {
    stdio: ['ignore', 'inherit', 'inherit'],
    env,
  })
  const deadline = setTimeout(() => child.kill('SIGKILL'), 300_000)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      clearTimeout(deadline)
      resolve(code ?? 1)
    })
  })
}

async function main(args) {
  const options = { log: (line) => process.stderr.write(`${line}\n`) }
  let isRunning = false
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]
    if (arg === '--addon') options.addon = true
    else if (arg === '--addon-asan') options.addonAsan = true
    else if (arg === '--fake') options.fake = true
    else if (arg === '--debug') options.debug = true
    else if (arg === '--each') options.each = true
    else if (arg === '--run') isRunning = true
    else if (arg === '--tests') options.tests = args[++i] ?? ''
    else {
      process.stderr.write(
        'Usage: build.mjs [--addon] [--addon-asan] [--fake] [--tests plain|asan|tsan [--run]] [--debug] [--each]\n',
      )
      process.exitCode = arg === '--help' ? 0 : 2
      return
    }
  }
  if (!options.addon && !options.addonAsan && !options.fake && !options.tests) {
    options.addon = options.fake = true
  }
  try {
    await build(options)
    if (isRunning && options.tests) process.exitCode = await runTests(options.tests)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  }
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  await main(process.argv.slice(2))
}
