/**
 * Which agent a comparison runs on. NIXL, unless the user asked for the in-memory one; only the demo may
 * go on without NIXL, and it says so.
 */

import type { Devices } from './process-cluster.ts'

export interface ChosenAgent {
  readonly kind: 'nixl' | 'memory'
  readonly nixl: { readonly version: string | null; readonly ucxVersion: string | null } | null
  readonly deviceTier: string
  /** Why the demo fell back; null otherwise. */
  readonly reason: string | null
}

const memoryAgent = (reason: string | null): ChosenAgent => ({
  kind: 'memory',
  nixl: null,
  deviceTier: 'JavaScript buffers',
  reason,
})

export interface AgentSurroundings {
  /** The engines are given by the caller and know themselves what they run on. */
  readonly isAssumed: boolean
  readonly devices?: Devices | null
}

/**
 * @throws ConnectorError ERR_NIXL_UNAVAILABLE when NIXL isn't there and `nixl` was asked for, or
 *   KVFERRY_REQUIRE_NIXL is 1.
 */
export async function resolveAgent(
  wanted: 'nixl' | 'memory' | 'auto',
  { isAssumed, devices = null }: AgentSurroundings,
): Promise<ChosenAgent> {
  if (wanted === 'memory') return memoryAgent(null)
  const deviceTier = devices === null ? 'host memory' : `memory of ${devices.prefill}`
  if (isAssumed) return { kind: 'nixl', nixl: null, deviceTier, reason: null }
  const { isNixlAvailable, nixlInfo } = await import('@kvferry/native-nixl')
  const availability = isNixlAvailable()
  if (availability.available) {
    const { nixlVersion, ucxVersion } = nixlInfo()
    return { kind: 'nixl', nixl: { version: nixlVersion, ucxVersion }, deviceTier, reason: null }
  }
  // Set in CI, where a demo that quietly shows something else would count as a success.
  const isRequired = process.env['KVFERRY_REQUIRE_NIXL'] === '1'
  if (wanted === 'nixl' || isRequired) throw availability.error
  return memoryAgent(`NIXL is not available here: ${availability.error.message}`)
}
