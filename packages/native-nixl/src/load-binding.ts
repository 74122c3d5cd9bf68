/**
 * Finds and loads the compiled addon, once per thread. The addon loads without NIXL; a machine without a
 * compiled addon gets an error that says how to make one.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { NativeBinding } from './binding.ts'
import { nixlUnavailable } from './nixl-error.ts'

let loaded: NativeBinding | null = null

const require = createRequire(import.meta.url)
const platform = `${process.platform}-${process.arch}`

/**
 * In this order: another build that was named (a sanitizer's), what the build of a clone made (src/ and
 * dist/ both lie one folder below the package), and the package of this platform that npm installed.
 */
function addonPath(): string {
  const named = process.env['KVFERRY_NATIVE_ADDON']
  if (named) return resolve(named)
  const built = fileURLToPath(new URL('../build/Release/kvferry_nixl.node', import.meta.url))
  if (existsSync(built)) return built
  try {
    return require.resolve(`@kvferry/native-nixl-${platform}/kvferry_nixl.node`)
  } catch {
    return built
  }
}

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE when there is no addon for this machine. */
export function loadBinding(): NativeBinding {
  if (loaded !== null) return loaded
  const path = addonPath()
  if (!existsSync(path)) {
    throw nixlUnavailable(
      `There is no native addon of @kvferry/native-nixl for ${platform}`,
      `Install @kvferry/native-nixl-${platform} (npm leaves it out with --omit=optional), or in a clone of the repository run "npm run setup" (needs a C++ compiler)`,
      { searched: [path] },
    )
  }
  try {
    loaded = require(path) as NativeBinding
  } catch (error) {
    throw nixlUnavailable(
      `The native addon ${path} can't be loaded: ${(error as Error).message}`,
      'Build it on this machine: "npm run setup" in a clone of the repository',
      { searched: [path], cause: error },
    )
  }
  return loaded
}
