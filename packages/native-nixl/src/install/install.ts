/**
 * Puts the pinned NIXL into a directory outside the project: fetch, check the hash, unpack into a
 * temporary sibling, rename. An installation therefore is whole or absent, and concurrent installs
 * only waste a download. Needs no network when a whole one is there. Called by `kvferry-nixl install`.
 */
import { randomBytes } from 'node:crypto'
import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { defaultInstallDirectory } from '../library-path.ts'
import { nixlUnavailable } from '../nixl-error.ts'
import { checkInstallation, hashFile, readManifest, writeManifest } from './manifest.ts'
import { assertSupportedPlatform, currentPlatform, type Platform } from './platform.ts'
import { downloadWheel, unpackWheel } from './python.ts'
import {
  libraryPathWithin,
  neededFileCount,
  nixlVersion,
  nixlWheels,
  type CudaMajor,
  type NixlWheel,
} from './wheels.ts'

/** Leftovers of an install that was killed are removed by a later one after this. */
const leftoverAgeMs = 6 * 3_600_000

export interface InstallOptions {
  readonly cuda: CudaMajor
  /** Default: `KVFERRY_NIXL_DIR`, else a directory per version in the user's cache. */
  readonly directory?: string | undefined
  /** A wheel that was fetched elsewhere; nothing is downloaded then. */
  readonly wheelPath?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Told what happens, one line each. */
  readonly onProgress?: ((line: string) => void) | undefined
  /** Default: this machine. */
  readonly platform?: Platform | undefined
  /** Default: the pinned wheels. */
  readonly wheels?: Readonly<Record<CudaMajor, NixlWheel>> | undefined
}

export interface InstallResult {
  readonly status: 'installed' | 'present'
  readonly nixlVersion: string
  readonly cuda: CudaMajor
  readonly directory: string
  readonly libraryPath: string
  readonly fileCount: number
  readonly sizeBytes: number
}

/**
 * Idempotent; safe to run twice at once.
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE with the remedy: platform, python3, pip, network, hash,
 *   directory; the signal's reason when aborted.
 */
export async function installNixl(options: InstallOptions): Promise<InstallResult> {
  assertSupportedPlatform(options.platform ?? currentPlatform())
  const wheel = (options.wheels ?? nixlWheels)[options.cuda]
  const directory = resolve(options.directory ?? defaultInstallDirectory(options.cuda))
  const problem = await checkInstallation(directory, wheel, { isThorough: true })
  if (problem === null) return describe('present', directory, wheel)
  await assertReplaceable(directory)

  const parent = dirname(directory)
  await mkdir(parent, { recursive: true }).catch(refuseDirectory(parent))
  await removeLeftovers(parent, basename(directory))
  const work = join(parent, `${basename(directory)}.tmp-${randomBytes(6).toString('hex')}`)
  try {
    const unpacked = join(work, 'unpacked')
    await mkdir(unpacked, { recursive: true }).catch(refuseDirectory(parent))
    const wheelPath = await fetchWheel(wheel, work, options)
    options.onProgress?.('unpacking the files that UCX needs')
    await unpackWheel(wheelPath, unpacked, options.signal)
    const manifest = await writeManifest(unpacked, wheel)
    if (manifest.files.length !== neededFileCount) {
      throw nixlUnavailable(
        `The wheel holds ${manifest.files.length} of the ${neededFileCount} files expected`,
        'Report this: the pinned file list and the wheel do not match',
      )
    }
    await publish(unpacked, directory, wheel, work)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return describe('installed', directory, wheel)
}

async function fetchWheel(wheel: NixlWheel, work: string, options: InstallOptions) {
  const fetched = join(work, wheel.fileName)
  if (options.wheelPath === undefined) {
    options.onProgress?.(`fetching ${wheel.packageName} ${nixlVersion} through pip (about 60 MB)`)
    await downloadWheel(wheel, work, options.signal)
  } else {
    await copyFile(options.wheelPath, fetched).catch((error: Error) => {
      throw nixlUnavailable(
        `The wheel ${options.wheelPath} could not be read`,
        `Name an existing ${wheel.fileName}`,
        { cause: error },
      )
    })
  }
  const actual = await hashFile(fetched)
  if (actual !== wheel.sha256) {
    throw nixlUnavailable(
      `${wheel.fileName} has the wrong hash: expected SHA-256 ${wheel.sha256}, found ${actual}`,
      'Nothing was installed. Clear what serves the file (pip cache, mirror, --wheel) and try again; if it comes from the public index, report it',
    )
  }
  return fetched
}

function refuseDirectory(directory: string): (error: Error) => never {
  return (error) => {
    throw nixlUnavailable(
      `${directory} can't be used (${error.message})`,
      'Name a writable directory with --dir or KVFERRY_NIXL_DIR',
      { cause: error },
    )
  }
}

/** A directory that holds something of somebody else's is never moved or emptied. */
async function assertReplaceable(directory: string): Promise<void> {
  const entries = await readdir(directory).catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' ? [] : refuseDirectory(directory)(error),
  )
  if (entries.length === 0 || readManifest(directory) !== null) return
  throw nixlUnavailable(
    `${directory} is not empty and holds no NIXL installation`,
    'Name another directory with --dir, or empty this one',
  )
}

/**
 * Renames `unpacked` to `directory`. Another install may do the same at this moment: whoever comes
 * second finds a whole installation and leaves it. A damaged one is moved out of the way first.
 */
async function publish(unpacked: string, directory: string, wheel: NixlWheel, work: string) {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      await rename(unpacked, directory)
      return
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
    }
    if ((await checkInstallation(directory, wheel, { isThorough: true })) === null) return
    await rename(directory, join(work, `replaced-${attempt}`)).catch(() => undefined)
  }
  throw nixlUnavailable(`${directory} could not be replaced`, 'Run the command again')
}

async function removeLeftovers(parent: string, name: string): Promise<void> {
  const entries = await readdir(parent)
  for (const entry of entries.filter((candidate) => candidate.startsWith(`${name}.tmp-`))) {
    const path = join(parent, entry)
    const found = await stat(path).catch(() => null)
    if (found !== null && Date.now() - found.mtimeMs > leftoverAgeMs) {
      await rm(path, { recursive: true, force: true })
    }
  }
}

function describe(
  status: InstallResult['status'],
  directory: string,
  wheel: NixlWheel,
): InstallResult {
  const files = readManifest(directory)?.files ?? []
  return {
    status,
    nixlVersion,
    cuda: wheel.cuda,
    directory,
    libraryPath: join(directory, libraryPathWithin(wheel.cuda)),
    fileCount: files.length,
    sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  }
}
