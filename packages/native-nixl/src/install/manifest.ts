/**
 * The manifest of one installation: written last, so its presence says that everything else is there.
 * Written by the installer; read by it and by `doctor`. Never repairs anything.
 */
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync } from 'node:fs'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { neededFileCount, nixlVersion, type CudaMajor, type NixlWheel } from './wheels.ts'

export const manifestName = 'kvferry-manifest.json'
const schema = 'kvferry.nixl-installation/1'

export interface ManifestFile {
  readonly path: string
  readonly sizeBytes: number
  readonly sha256: string
}

export interface Manifest {
  readonly schema: typeof schema
  readonly nixlVersion: string
  readonly cuda: CudaMajor
  readonly wheelSha256: string
  readonly files: readonly ManifestFile[]
}

export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1_048_576 })) {
    hash.update(chunk as Buffer)
  }
  return hash.digest('hex')
}

/** Describes the unpacked files of `directory` and writes the manifest beside them. */
export async function writeManifest(directory: string, wheel: NixlWheel): Promise<Manifest> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files: ManifestFile[] = []
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const absolute = join(entry.parentPath, entry.name)
    files.push({
      path: absolute.slice(directory.length + 1),
      sizeBytes: (await stat(absolute)).size,
      sha256: await hashFile(absolute),
    })
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  const manifest: Manifest = {
    schema,
    nixlVersion,
    cuda: wheel.cuda,
    wheelSha256: wheel.sha256,
    files,
  }
  await writeFile(join(directory, manifestName), `${JSON.stringify(manifest, null, 1)}\n`)
  return manifest
}

/** The manifest in `directory`, or null when there is none or it isn't ours. */
export function readManifest(directory: string): Manifest | null {
  try {
    const value = JSON.parse(readFileSync(join(directory, manifestName), 'utf8')) as Manifest
    return value.schema === schema && Array.isArray(value.files) ? value : null
  } catch {
    return null
  }
}

/**
 * What is wrong with the installation in `directory`, or null. `isThorough` also hashes every file
 * (about 0.1 s); without it only presence and sizes are compared.
 */
export async function checkInstallation(
  directory: string,
  wheel: NixlWheel,
  options: { readonly isThorough: boolean },
): Promise<string | null> {
  const manifest = readManifest(directory)
  if (manifest === null) return 'no manifest'
  if (manifest.wheelSha256 !== wheel.sha256) return 'made from another wheel'
  if (manifest.files.length !== neededFileCount) return 'incomplete manifest'
  for (const file of manifest.files) {
    const path = join(directory, file.path)
    const found = await stat(path).catch(() => null)
    if (found === null) return `${file.path} is missing`
    if (found.size !== file.sizeBytes) return `${file.path} has the wrong size`
    if (options.isThorough && (await hashFile(path)) !== file.sha256) {
      return `${file.path} has changed`
    }
  }
  return null
}
