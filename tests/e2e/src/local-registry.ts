/**
 * A package registry on loopback that knows what it was given and nothing else: packages as they are
 * published, and third-party packages as they lie in the workspace's node_modules. So an installation by
 * npm is tested without a network. Never asks another registry.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readFileSync, realpathSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

export interface PackedPackage {
  readonly name: string
  /** The tarball. */
  readonly file: string
  readonly integrity: string
  readonly manifest: Manifest
}

const readManifest = (folder: string) =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest

/** Where Node would find `name` from `folder`. */
function resolveFolder(name: string, folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    const candidate = join(at, 'node_modules', name)
    if (existsSync(join(candidate, 'package.json'))) return realpathSync(candidate)
    if (dirname(at) === at) throw new Error(`${name} is not installed for ${folder}`)
  }
}

/** Folders of every third-party package that the packages in `folders` need, directly or not. */
export function thirdPartyFolders(folders: readonly string[]): string[] {
  const found = new Set<string>()
  const visit = (folder: string) => {
    for (const name of Object.keys(readManifest(folder).dependencies ?? {})) {
      if (name.startsWith('@kvferry/')) continue
      const dependency = resolveFolder(name, folder)
      if (found.has(dependency)) continue
      found.add(dependency)
      visit(dependency)
    }
  }
  folders.forEach(visit)
  return [...found]
}

/** Packs folders of installed packages into `out`, as they are. */
export async function packFolders(folders: readonly string[], out: string) {
  const packed: PackedPackage[] = []
  for (const [index, folder] of folders.entries()) {
    const file = join(out, `third-party-${index}.tgz`)
    const args = ['-czf', file, '--exclude=./node_modules', '--transform=s,^[.],package,', '.']
    await promisify(execFile)('tar', args, { cwd: folder })
    const manifest = readManifest(folder)
    const hash = createHash('sha512').update(readFileSync(file)).digest('base64')
    packed.push({ name: manifest.name, file, integrity: `sha512-${hash}`, manifest })
  }
  return packed
}

export interface LocalRegistry {
  readonly url: string
  close(): Promise<void>
}

export async function startRegistry(packages: readonly PackedPackage[]): Promise<LocalRegistry> {
  const tarballs = new Map(packages.map((one, index) => [`/-/${index}.tgz`, one]))
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/')
    const tarball = tarballs.get(path)
    if (tarball !== undefined) {
      createReadStream(tarball.file).pipe(response)
      return
    }
    const versions = [...tarballs].flatMap(([place, { name, manifest, integrity }]) =>
      `/${name}` === path
        ? [{ ...manifest, dist: { tarball: new URL(place, url).href, integrity } }]
        : [],
    )
    const latest = versions.at(-1)?.version
    response.statusCode = latest === undefined ? 404 : 200
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({
        name: path.slice(1),
        'dist-tags': { latest },
        versions: Object.fromEntries(versions.map((each) => [each.version, each])),
      }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    url,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
