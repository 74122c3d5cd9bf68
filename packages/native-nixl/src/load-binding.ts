/**
 * Finds and loads the compiled addon, once per thread. The addon loads without NIXL; a machine without a
 * compiled addon gets an error that says how to make one.
 */
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { NativeBinding } from './binding.ts'
import { nixlUnavailable } from './nixl-error.ts'

let loaded: NativeBinding | null = null

/** Both src/ and dist/ lie one folder below the package, where the build puts the addon. */
function addonPath(): string {
  return fileURLToPath(new URL('../build/Release/kvferry_nixl.node', import.meta.url))
}

/** @throws ConnectorError ERR_NIXL_UNAVAILABLE when there is no addon for this machine. */
export function loadBinding(): NativeBinding {
  if (loaded !== null) return loaded
  const path = addonPath()
  if (!existsSync(path)) {
    throw nixlUnavailable(
      'The native addon of @kvferry/native-nixl is not built',
      'Build it with "npm run setup" in the repository (needs a C++ compiler)',
      { searched: [path] },
    )
  }
  try {
    loaded = createRequire(import.meta.url)(path) as NativeBinding
  } catch (error) {
    throw nixlUnavailable(
      `The native addon ${path} can't be loaded: ${(error as Error).message}`,
      'Build it again on this machine with "npm run setup"',
      { searched: [path], cause: error },
    )
  }
  return loaded
}
