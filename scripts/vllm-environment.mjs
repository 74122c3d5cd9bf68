// A Python environment with the pinned vLLM for CPU, kept outside the clone and named by the hash of what
// it is made of, so that it is made once. torch comes as its CUDA build, since only that is on the package
// index; the CUDA libraries that a CPU never calls are stubs (cuda_stubs.py). Used by vllm-test.mjs.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { run } from './process.mjs'

const say = (line) => process.stderr.write(`vllm: ${line}\n`)
/** Downloads in parallel, which halves the time and more; without it pip does the same slowly. */
const uv = 'uv==0.13.9'
const packageCacheName = 'package-cache'

/** What the user must mend. */
export class EnvironmentError extends Error {}

/** Pythons of pyenv that are not the chosen one, so not on PATH. */
function pyenvPythons(version) {
  const folder = join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), 'versions')
  if (!existsSync(folder)) return []
  const names = readdirSync(folder).filter((name) => name.startsWith(`${version}.`))
  return names.map((name) => join(folder, name, 'bin', 'python3'))
}

/** The first Python that runs and can make environments: 3.12, which vLLM is tested with, else 3.11 or later. */
async function findPython() {
  const versions = ['3.12', '3.11', '3.13']
  const candidates = versions.flatMap((version) => [`python${version}`, ...pyenvPythons(version)])
  const given = process.env.KVFERRY_PYTHON
  const check = 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])'
  for (const command of given ? [given] : [...candidates, 'python3']) {
    const { code, output } = await run(command, ['-c', check], { quiet: true })
    const version = output.trim()
    if (code === 0 && /^3\.1[1-4]$/.test(version)) return { command, version }
  }
  throw new EnvironmentError('vLLM needs Python 3.11 to 3.14 with venv, best 3.12; none was found')
}

async function step(what, command, args, env) {
  const { code, output } = await run(command, args, { quiet: true, env })
  if (code !== 0) throw new EnvironmentError(`${what} failed:\n${output.slice(-4_000)}`)
}

async function installPackages(folder, lock) {
  const python = join(folder, 'bin', 'python')
  const cache = join(folder, packageCacheName)
  const requirements = ['--no-deps', '-r', lock]
  const quiet = { quiet: true }
  const pip = ['-m', 'pip', 'install', '-q', '--no-compile']
  const hasUv = (await run(python, [...pip, '--no-cache-dir', uv], quiet)).code === 0
  if (hasUv) {
    const args = ['pip', 'install', '-q', '--python', python, '--cache-dir', cache, ...requirements]
    const { code } = await run(join(folder, 'bin', 'uv'), args, quiet)
    rmSync(cache, { recursive: true, force: true })
    if (code === 0) return
  }
  await step('pip install', python, [...pip, ...requirements])
}

const digest = (...texts) =>
  texts
    .reduce((hash, text) => hash.update(text), createHash('sha256'))
    .digest('hex')
    .slice(0, 12)

async function makeEnvironment(folder, command, recipe) {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await step('python -m venv', command, ['-m', 'venv', folder])
  await installPackages(folder, join(recipe, 'requirements.lock'))
  const stubs = [join(recipe, 'cuda_stubs.py')]
  await step('cuda_stubs.py (needs gcc and nm)', join(folder, 'bin', 'python'), stubs)
  writeFileSync(join(folder, 'complete'), '')
}

/**
 * Finds or makes the environment. `recipe`: the folder with requirements.lock, cuda_stubs.py, make_model.py.
 * Resolves with the paths of its Python and of the tiny model. Rejects with EnvironmentError.
 */
export async function vllmEnvironment(recipe) {
  const [lock, stubs, maker] = ['requirements.lock', 'cuda_stubs.py', 'make_model.py'].map((file) =>
    readFileSync(join(recipe, file)),
  )
  const { command, version } = await findPython()
  const caches = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'kvferry')
  const folder = join(caches, `vllm-${digest(version, lock, stubs)}`)
  if (!existsSync(join(folder, 'complete'))) {
    say(`environment with Python ${version} in ${folder} (1.1 GB to download, once)`)
    await makeEnvironment(folder, command, recipe)
  }
  const python = join(folder, 'bin', 'python')
  const model = join(folder, `tiny-model-${digest(maker)}`)
  const made = [join(recipe, 'make_model.py'), model]
  if (!existsSync(join(model, 'model.safetensors'))) await step('make_model.py', python, made)
  return { python, model }
}
