#!/usr/bin/env node
// All set-up of a clone: pnpm (in .cache), workspace packages, build, native addon, pinned NIXL.
// Idempotent: each step says what it did, and a second run needs no network and takes seconds.
// No dependencies, since nothing is installed yet when it runs.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync, readdirSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { run } from './process.mjs'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tools = join(root, '.cache', 'tools')
export const toolsPath = `${join(tools, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const env = { PATH: toolsPath, TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1', CI: 'true' }

const say = (line) => process.stderr.write(`setup: ${line}\n`)

/** One clear line instead of a stack: these are the user's surroundings, not our bugs. */
export class SetupError extends Error {}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19)) {
    throw new SetupError(`Node ${process.versions.node} is too old; install Node 20.19 or later`)
  }
}

async function ensurePnpm() {
  const version = manifest.packageManager.split('@')[1]
  const installed = join(tools, 'node_modules', 'pnpm', 'package.json')
  if (existsSync(installed) && JSON.parse(readFileSync(installed, 'utf8')).version === version)
    return
  say(`pnpm ${version} into .cache/tools`)
  mkdirSync(tools, { recursive: true })
  const args = ['install', '--prefix', tools, '--no-audit', '--no-fund', '--no-save']
  const { code, output } = await run('npm', [...args, `pnpm@${version}`], { quiet: true })
  if (code !== 0) throw new SetupError(`npm could not fetch pnpm ${version}:\n${output}`)
}

function packageManifests() {
  const folders = ['packages', 'tests'].flatMap((parent) =>
    readdirSync(join(root, parent)).map((name) => join(parent, name)),
  )
  return [...folders, 'benchmarks', '.']
    .map((folder) => join(root, folder, 'package.json'))
    .filter((path) => existsSync(path))
}

async function installPackages() {
  const hash = createHash('sha256')
  for (const file of [
    join(root, 'pnpm-lock.yaml'),
    join(root, 'pnpm-workspace.yaml'),
    ...packageManifests(),
  ]) {
    hash.update(readFileSync(file))
  }
  const stamp = join(root, 'node_modules', '.kvferry-installed')
  const digest = hash.digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return
  say('workspace packages (pnpm install --frozen-lockfile)')
  const { code, output } = await run('pnpm', ['install', '--frozen-lockfile', '--prefer-offline'], {
    cwd: root,
    env,
    quiet: true,
  })
  if (code !== 0) throw new SetupError(`pnpm install failed:\n${output}`)
  writeFileSync(stamp, digest)
}

async function buildPackages() {
  say('build (unchanged packages come from the cache)')
  const args = [
    'exec',
    'turbo',
    'run',
    'build',
    '--output-logs=errors-only',
    '--no-update-notifier',
  ]
  const { code, output } = await run('pnpm', args, { cwd: root, env, quiet: true })
  if (code !== 0) throw new SetupError(`build failed:\n${output}`)
}

async function buildAddon() {
  say('native addon')
  const script = join(root, 'packages', 'native-nixl', 'native', 'build.mjs')
  const { code, output } = await run(process.execPath, [script, '--addon'], { quiet: true })
  if (code !== 0) throw new SetupError(`the native addon could not be built:\n${output}`)
}

/** @returns whether NIXL is there. Missing NIXL is an error only where it was asked for. */
async function installNixl() {
  const script = join(root, 'packages', 'native-nixl', 'bin', 'kvferry-nixl.mjs')
  const { code, output } = await run(process.execPath, [script, 'install'], { quiet: true })
  if (code === 0) {
    say(output.trim().split('\n').at(-1) ?? 'NIXL is there')
    return true
  }
  if (process.env.KVFERRY_REQUIRE_NIXL === '1') throw new SetupError(`NIXL is required:\n${output}`)
  say(`NIXL could not be installed; what needs it is skipped or refused:\n${output.trim()}`)
  return false
}

export async function setup() {
  checkNode()
  await ensurePnpm()
  await installPackages()
  await buildPackages()
  await buildAddon()
  const hasNixl = await installNixl()
  say('done')
  return { hasNixl }
}

/** Runs `main`, turning a SetupError into one line and exit code 1. */
export async function runMain(main) {
  try {
    process.exitCode = (await main()) ?? 0
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    process.stderr.write(`setup: ${error.message}\n`)
    process.exitCode = 1
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runMain(async () => {
    await setup()
  })
}
