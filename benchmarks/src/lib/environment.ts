/**
 * Where a result was measured: versions, machine, seed. Written into every result file, because a chart
 * without it is not worth publishing. Reads files and asks `git` once; a fact that can't be had is null.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, release, totalmem } from 'node:os'
import { dirname, join } from 'node:path'

export interface Environment {
  readonly commit: string | null
  readonly packages: Readonly<Record<string, string>>
  readonly nixl: string | null
  readonly ucx: string | null
  readonly transports: readonly string[]
  readonly cpu: { readonly model: string; readonly cores: number }
  readonly memoryBytes: number
  readonly kernel: string
  readonly gpu: readonly string[]
  readonly node: string
  readonly seed: number
  /** Which memory stood for the device tier. */
  readonly deviceTier: string
}

const measuredPackages = [
  '@kvferry/benchmarks',
  '@kvferry/connector-api',
  '@kvferry/connector-pull',
  '@kvferry/connector-push',
  '@kvferry/connector-xavier',
  '@kvferry/kv-history',
  '@kvferry/native-nixl',
  '@kvferry/reference-engine',
  '@kvferry/router',
  '@kvferry/runtime',
]

const require = createRequire(import.meta.url)

function packageVersions(): Record<string, string> {
  const versions: Record<string, string> = {}
  for (const name of measuredPackages) {
    try {
      const { version } = require(`${name}/package.json`) as { version: string }
      versions[name] = version
    } catch {
      // Not installed: connectors are optional, and what is absent was not measured.
    }
  }
  return versions
}

/** The commit of the checkout this package lies in, or what a bundle says it was made from; else null. */
function sourceCommit(): string | null {
  const named = process.env['KVFERRY_COMMIT']
  if (named) return named
  const directory = dirname(require.resolve('@kvferry/benchmarks/package.json'))
  return directory.includes('node_modules') ? null : checkoutCommit(directory)
}

/** Of the checkout that `directory` lies in, with what was changed since said; null where there is none. */
export function checkoutCommit(directory: string): string | null {
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', directory, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 5_000,
    }).trim()
  try {
    const commit = git('rev-parse', 'HEAD')
    return git('status', '--porcelain', '--untracked-files=no') === '' ? commit : `${commit}-dirty`
  } catch {
    return null
  }
}

function gpus(): string[] {
  const root = '/proc/driver/nvidia/gpus'
  try {
    return readdirSync(root).map((id) => {
      const text = readFileSync(join(root, id, 'information'), 'utf8')
      return /^Model:\s*(.+)$/m.exec(text)?.[1]?.trim() ?? 'unknown'
    })
  } catch {
    return []
  }
}

/** `nixl`, `ucx` and `transports` come from whoever ran the agents. */
export function readEnvironment(known: {
  readonly seed: number
  readonly nixl: string | null
  readonly ucx: string | null
  readonly transports: readonly string[]
  readonly deviceTier: string
}): Environment {
  const processors = cpus()
  return {
    commit: sourceCommit(),
    packages: packageVersions(),
    nixl: known.nixl,
    ucx: known.ucx,
    transports: known.transports,
    cpu: { model: processors[0]?.model.trim() ?? 'unknown', cores: processors.length },
    memoryBytes: totalmem(),
    kernel: release(),
    gpu: gpus(),
    node: process.version,
    seed: known.seed,
    deviceTier: known.deviceTier,
  }
}
