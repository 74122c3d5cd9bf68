/**
 * Where the NIXL library is. Order: the explicit path, `KVFERRY_NIXL_LIBRARY` (a file),
 * `KVFERRY_NIXL_DIR` (an installation), the default installation. Whatever was named wins or fails; a
 * missing named library is never replaced by another one, since that would hide the mistake.
 */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { nixlUnavailable } from './nixl-error.ts'
import { cudaMajors, libraryPathWithin, nixlVersion, type CudaMajor } from './install/wheels.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Where `kvferry-nixl install` puts an installation when no directory is named. */
export function defaultInstallDirectory(
  cuda: CudaMajor,
  environment: Environment = process.env,
): string {
  const named = environment['KVFERRY_NIXL_DIR']
  if (named) return resolve(named)
  // The XDG specification ignores relative values.
  const xdg = environment['XDG_CACHE_HOME']
  const cache = xdg && isAbsolute(xdg) ? xdg : join(homedir(), '.cache')
  return join(cache, 'kvferry', 'nixl', `${nixlVersion}-cu${cuda}`)
}

/**
 * Absolute path of `libnixl_capi.so`.
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE listing what was searched.
 */
export function findLibrary(
  explicitPath: string | null = null,
  environment: Environment = process.env,
): string {
  const named = explicitPath ?? environment['KVFERRY_NIXL_LIBRARY']
  const candidates = named
    ? [resolve(named)]
    : cudaMajors.map((cuda) =>
        join(defaultInstallDirectory(cuda, environment), libraryPathWithin(cuda)),
      )
  const found = candidates.find((candidate) => existsSync(candidate))
  if (found !== undefined) return found
  throw nixlUnavailable(
    named
      ? `There is no NIXL library at ${candidates[0]}`
      : `NIXL is not installed: neither ${candidates.join(' nor ')} is there`,
    named
      ? `Correct ${explicitPath === null ? 'KVFERRY_NIXL_LIBRARY' : 'the library path'}, or leave it out and run "npx kvferry-nixl install"`
      : 'Run "npx kvferry-nixl install", or name another folder in KVFERRY_NIXL_DIR',
    { searched: candidates },
  )
}
