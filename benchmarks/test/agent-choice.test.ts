import { afterEach, describe, expect, it, vi } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import { resolveAgent } from '../src/compare/agent-choice.ts'

const native = vi.hoisted(() => ({ isNixlAvailable: vi.fn(), nixlInfo: vi.fn() }))
vi.mock('@kvferry/native-nixl', () => native)

const missing = new ConnectorError('ERR_NIXL_UNAVAILABLE', 'no NIXL in this test', {
  searched: [],
  remedy: 'none',
})
const present = (): void => {
  native.isNixlAvailable.mockReturnValue({ available: true, path: '/lib' })
  native.nixlInfo.mockReturnValue({ nixlVersion: '1.2.3', ucxVersion: '4.5.6' })
}
const absent = (): void => {
  native.isNixlAvailable.mockReturnValue({ available: false, error: missing })
}

afterEach(() => {
  vi.unstubAllEnvs()
  vi.resetAllMocks()
})

const asked = { isAssumed: false }

describe('resolveAgent', () => {
  it('takes NIXL where it is, with its versions', async () => {
    present()
    const nixl = { version: '1.2.3', ucxVersion: '4.5.6' }
    expect(await resolveAgent('nixl', asked)).toMatchObject({ kind: 'nixl', nixl, reason: null })
    expect(await resolveAgent('auto', asked)).toMatchObject({ kind: 'nixl', nixl })
  })

  it('never falls back when NIXL was asked for', async () => {
    absent()
    await expect(resolveAgent('nixl', asked)).rejects.toBe(missing)
  })

  it('lets the demo go on in memory, and says why', async () => {
    absent()
    vi.stubEnv('KVFERRY_REQUIRE_NIXL', '')
    const chosen = await resolveAgent('auto', asked)
    expect(chosen).toMatchObject({ kind: 'memory', nixl: null })
    expect(chosen.reason).toContain('no NIXL in this test')
  })

  it('refuses even the demo where NIXL is required', async () => {
    absent()
    vi.stubEnv('KVFERRY_REQUIRE_NIXL', '1')
    await expect(resolveAgent('auto', asked)).rejects.toBe(missing)
  })

  it('does not look for NIXL when the in-memory agent was asked for', async () => {
    expect(await resolveAgent('memory', asked)).toMatchObject({ kind: 'memory', reason: null })
    expect(native.isNixlAvailable).not.toHaveBeenCalled()
  })
})
