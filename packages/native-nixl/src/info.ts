/** What NIXL is here: versions, place, layout, limits. For people, result files and bug reports. */
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { limits } from '@kvferry/connector-api'
import { findLibrary } from './library-path.ts'
import { loadBinding } from './load-binding.ts'
import { readManifest } from './install/manifest.ts'
import { ucxVersion } from './install/wheels.ts'
import { callNative } from './nixl-error.ts'
import { applyEnvironment } from './transports.ts'

export interface NixlInfo {
  readonly packageVersion: string
  /** Null where the library isn't from a pinned wheel: it can't say its version itself. */
  readonly nixlVersion: string | null
  readonly ucxVersion: string | null
  /** CUDA major of the wheel, with the same condition. */
  readonly cuda: string | null
  readonly path: string
  /** Which layout of the library's config struct is used. */
  readonly layout: string
  readonly node: string
  readonly nodeApi: string
  readonly limits: typeof limits
}

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE */
export function nixlInfo(): NixlInfo {
  const path = findLibrary()
  const layout = callNative({ operation: 'loadLibrary' }, () => loadBinding().loadLibrary(path))
  const manifest = readManifest(dirname(dirname(path)))
  const packageFile = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return {
    packageVersion: (JSON.parse(packageFile) as { version: string }).version,
    nixlVersion: manifest?.nixlVersion ?? null,
    ucxVersion: manifest === null ? null : ucxVersion,
    cuda: manifest?.cuda ?? null,
    path,
    layout,
    node: process.versions.node,
    nodeApi: process.versions['napi'] ?? 'unknown',
    limits,
  }
}

export interface NixlPlugin {
  readonly name: string
  /** Listed plugins need not load: most of them want libraries of a vendor. */
  readonly isLoadable: boolean
}

/**
 * Tries to load each plugin that the library lists. Blocks for about half a second.
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE
 */
export function probePlugins(): NixlPlugin[] {
  const path = findLibrary()
  const binding = loadBinding()
  // Plugins load UCX, which would log to stdout and take over a signal.
  applyEnvironment(binding, {}, '')
  return callNative({ operation: 'probePlugins' }, () => binding.probePlugins(path))
}
