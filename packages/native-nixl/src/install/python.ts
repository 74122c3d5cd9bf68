/**
 * Runs the host's python3, which is needed twice and only while installing: pip fetches the wheel (so
 * that mirrors, proxies and certificates configured for pip work), zipfile unpacks it. Knows how python
 * and pip fail and says what mends it; decides nothing else.
 */
import { spawn } from 'node:child_process'
import { nixlUnavailable } from '../nixl-error.ts'
import {
  neededFilePatterns,
  nixlVersion,
  pipTagArguments,
  unpackedSizeBytesMax,
  type NixlWheel,
} from './wheels.ts'

/** A wheel of 60 MB over a slow line; after this pip hangs rather than loads. */
const downloadTimeoutMs = 15 * 60_000
const unpackTimeoutMs = 2 * 60_000
/** Kept of a child's output for the error message. */
const outputSizeCharsMax = 16_384

interface Outcome {
  readonly exitCode: number | null
  readonly output: string
  readonly hasTimedOut: boolean
}

interface RunOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

function runPython(parameters: readonly string[], options: RunOptions): Promise<Outcome> {
  options.signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const child = spawn('python3', parameters, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let hasTimedOut = false
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-outputSizeCharsMax)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    const stop = () => child.kill('SIGKILL')
    const timer = setTimeout(() => {
      hasTimedOut = true
      stop()
    }, options.timeoutMs)
    options.signal?.addEventListener('abort', stop, { once: true })
    const settle = () => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', stop)
    }
    child.once('error', (error: NodeJS.ErrnoException) => {
      settle()
      reject(
        error.code === 'ENOENT'
          ? nixlUnavailable(
              'python3 was not found',
              'Install python3 with pip (Debian, Ubuntu: "apt-get install python3-pip"), or fetch NIXL on another machine and pass it with --wheel FILE',
              { cause: error },
            )
          : error,
      )
    })
    child.once('close', (exitCode) => {
      settle()
      if (options.signal?.aborted) reject(options.signal.reason as Error)
      else resolve({ exitCode, output, hasTimedOut })
    })
  })
}

/** Words with which pip's network layer reports that it reached nobody. */
const networkFailure =
  /NewConnectionError|Failed to establish|Connection (refused|reset|broken)|ConnectTimeout|ReadTimeout|NameResolution|Temporary failure in name|ProxyError|SSLError|Network is unreachable/

/**
 * Fetches the wheel into `directory`.
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE: no python3, no pip, no network, no such package.
 */
export async function downloadWheel(
  wheel: NixlWheel,
  directory: string,
  signal?: AbortSignal,
): Promise<void> {
  const outcome = await runPython(
    [
      ...['-m', 'pip', 'download', '--no-deps', '--no-input', '--disable-pip-version-check'],
      ...['--progress-bar=off', '--retries=2', `--dest=${directory}`],
      ...pipTagArguments,
      `${wheel.packageName}==${nixlVersion}`,
    ],
    { timeoutMs: downloadTimeoutMs, signal },
  )
  if (outcome.exitCode === 0) return
  const cause = new Error(outcome.output.trim().slice(-2_000) || 'pip said nothing')
  if (/No module named '?pip/.test(outcome.output)) {
    throw nixlUnavailable(
      'python3 has no pip',
      'Install it (Debian, Ubuntu: "apt-get install python3-pip"; elsewhere: "python3 -m ensurepip"), then run the command again',
      { cause },
    )
  }
  if (outcome.hasTimedOut || networkFailure.test(outcome.output)) {
    throw nixlUnavailable(
      `pip could not reach a package index to fetch ${wheel.packageName} ${nixlVersion}`,
      `Check the network, or pip's proxy and index settings ("python3 -m pip config list"); offline, fetch ${wheel.fileName} elsewhere and pass it with --wheel FILE`,
      { cause },
    )
  }
  throw nixlUnavailable(
    `pip failed to fetch ${wheel.packageName} ${nixlVersion}: ${lastLine(outcome.output)}`,
    `Run "python3 -m pip download --no-deps ${wheel.packageName}==${nixlVersion}" to see why, or pass the wheel with --wheel FILE`,
    { cause },
  )
}

/**
 * Unpacks the needed files only. Names come from the archive, so each must match a pattern as a whole
 * (no pattern allows "..") and sizes are bounded before anything is written.
 */
const unpackProgram = `
import json, os, re, shutil, sys, zipfile
wheel, target, limit, patterns = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
with zipfile.ZipFile(wheel) as archive:
    chosen = [i for i in archive.infolist() if any(re.search(p, i.filename) for p in patterns)]
    if sum(i.file_size for i in chosen) > limit:
        sys.exit('the archive is larger than expected')
    for info in chosen:
        path = os.path.join(target, info.filename)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with archive.open(info) as source, open(path, 'wb') as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        os.chmod(path, 0o755)
`

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE when the archive can't be read or the disk is full. */
export async function unpackWheel(
  wheelPath: string,
  directory: string,
  signal?: AbortSignal,
): Promise<void> {
  const outcome = await runPython(
    [
      ...['-c', unpackProgram, wheelPath, directory],
      ...[String(unpackedSizeBytesMax), JSON.stringify(neededFilePatterns)],
    ],
    { timeoutMs: unpackTimeoutMs, signal },
  )
  if (outcome.exitCode === 0) return
  throw nixlUnavailable(
    `The NIXL wheel could not be unpacked: ${lastLine(outcome.output)}`,
    `Check the free space and the rights of ${directory}, then run the command again`,
    { cause: new Error(outcome.output.trim()) },
  )
}

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1) ?? ''
}
