/**
 * Whether the pinned wheels can run here. Asked before anything is downloaded, so that an unsupported
 * machine hears so at once.
 */
import { nixlUnavailable } from '../nixl-error.ts'
import { glibcVersionMin } from './wheels.ts'

export interface Platform {
  readonly os: string
  readonly arch: string
  /** For example `2.36`; null where the C library isn't glibc. */
  readonly glibcVersion: string | null
}

export function currentPlatform(): Platform {
  const report = process.report as { excludeNetwork?: boolean; getReport(): unknown }
  // Without this the report resolves the names of all interfaces, which takes seconds on some hosts.
  report.excludeNetwork = true
  const { header } = report.getReport() as { header: { glibcVersionRuntime?: string } }
  return {
    os: process.platform,
    arch: process.arch,
    glibcVersion: header.glibcVersionRuntime ?? null,
  }
}

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE on anything but Linux x64 with a recent glibc. */
export function assertSupportedPlatform(platform: Platform): void {
  const remedy = `NIXL's wheels are pinned for Linux x64 with glibc ${glibcVersionMin.major}.${glibcVersionMin.minor} or newer; elsewhere, build NIXL and name its C library in KVFERRY_NIXL_LIBRARY`
  if (platform.os !== 'linux' || platform.arch !== 'x64') {
    throw nixlUnavailable(`There is no pinned NIXL for ${platform.os} ${platform.arch}`, remedy)
  }
  if (platform.glibcVersion === null) {
    throw nixlUnavailable('This system does not use glibc', remedy)
  }
  const [major = 0, minor = 0] = platform.glibcVersion.split('.').map(Number)
  const isOld =
    major < glibcVersionMin.major ||
    (major === glibcVersionMin.major && minor < glibcVersionMin.minor)
  if (isOld) throw nixlUnavailable(`glibc ${platform.glibcVersion} is too old`, remedy)
}
