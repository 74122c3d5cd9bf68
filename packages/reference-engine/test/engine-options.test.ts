/** Flags, file and defaults: what wins, and what is refused with a remedy. */
import { describe, expect, it } from 'vitest'
import { resolveCoreConfig, type EngineSettingOptions } from '../src/engine-options.ts'

const resolve = (options: EngineSettingOptions) => resolveCoreConfig(options, 'feedfacefeedface')

function refusal(options: EngineSettingOptions): { code: string; message: string } {
  try {
    resolve(options)
  } catch (error) {
    return error as { code: string; message: string }
  }
  throw new Error('was accepted')
}

describe('engine options', () => {
  it('have defaults: one engine that does all, without connector', () => {
    const { engineId, kvferry, settings } = resolve({})
    expect(kvferry).toBeNull()
    expect(engineId).toBe('engine-feedface')
    expect(settings).toMatchObject({
      role: 'both',
      model: 'tiny',
      blockTokens: 16,
      blockCount: 2_048,
      maxModelLen: 4_096,
      blockOrder: 'sequential',
      isPrefixCachingOn: true,
      hooks: 'after-launch',
      timeScale: 1,
      kvScale: 1,
    })
  })

  it('win over the file, one by one', () => {
    const { engineId, kvferry, settings } = resolve({
      config: {
        connector: 'pull',
        role: 'kv_producer',
        engineId: 'from-file',
        sideChannel: { port: 5_600 },
        options: { posting: 'inline', leaseDurationMs: 40_000 },
      },
      engineId: 'from-flag',
      sideChannelPort: 0,
      options: { posting: 'background' },
    })
    expect(engineId).toBe('from-flag')
    expect(settings.role).toBe('producer')
    expect(kvferry).toMatchObject({
      connector: 'pull',
      role: 'producer',
      engineId: 'from-flag',
      sideChannel: { host: '127.0.0.1', port: 0 },
      options: { posting: 'background', leaseDurationMs: 40_000 },
    })
  })

  it('refuse heads before tokens where heads share words', () => {
    expect(resolve({ blockOrder: 'scattered' }).settings.blockOrder).toBe('scattered')
    expect(resolve({ kvLayout: 'LBHNC' }).settings.kvLayout).toBe('LBHNC')
    expect(() => resolve({ kvLayout: 'LBHNC', kvScale: 32 })).toThrow(/kvLayout.*lower kvScale/)
  })

  it('say where KV lies: on the host unless a GPU is named', () => {
    const deviceOf = (device?: string) =>
      resolve(device === undefined ? {} : { device }).settings.device
    expect([deviceOf(), deviceOf('cpu'), deviceOf('cuda'), deviceOf('cuda:3')]).toEqual([
      ...[null, null, 0, 3],
    ])
  })

  it('let flag and file agree on a role, and refuse that they differ', () => {
    const config = { connector: 'pull', role: 'consumer' }
    expect(resolve({ config, role: 'decode' }).settings.role).toBe('consumer')
    expect(refusal({ config, role: 'prefill' })).toMatchObject({
      code: 'ERR_KV_CONFIG',
      message: expect.stringContaining(
        'role is "prefill": the configuration file says role: consumer',
      ) as string,
    })
  })

  const refused: [string, EngineSettingOptions, string, RegExp][] = [
    [
      'a role without connector',
      { role: 'prefill' },
      'ERR_KV_CONFIG',
      /use connector pull, push or xavier/,
    ],
    ['ranks that would cut a head', { tp: 4 }, 'ERR_KV_CONFIG', /2 KV heads of tiny/],
    [
      'a device that is none',
      { device: 'gpu0' },
      'ERR_KV_CONFIG',
      /device is "gpu0": use cpu, or cuda:N/,
    ],
    ['an unknown model', { model: 'gpt' }, 'ERR_KV_CONFIG', /tiny/],
    ['a scale that leaves no head', { kvScale: 3 }, 'ERR_KV_CONFIG', /power of two/],
    ['no blocks', { numBlocks: 0 }, 'ERR_KV_CONFIG', /numBlocks is 0/],
    [
      'sequences longer than the pool',
      { numBlocks: 4, blockSize: 4, maxModelLen: 17 },
      'ERR_KV_CONFIG',
      /hold 16/,
    ],
    ['a negative time scale', { timeScale: -1 }, 'ERR_KV_CONFIG', /timeScale is -1/],
    ['an engine id with a colon', { engineId: 'a:b' }, 'ERR_KV_CONFIG', /engineId/],
    [
      'a misspelt key in the file',
      { config: { connector: 'pull', peer: [] } },
      'ERR_KV_CONFIG',
      /did you mean peers/,
    ],
    ['a misspelt connector', { connector: 'pul' }, 'ERR_KV_CONFIG', /did you mean "pull"/],
  ]
  for (const [name, options, code, message] of refused) {
    it(`refuse ${name}`, () => {
      const error = refusal(options)
      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
    })
  }

  it('shorten the longest sequence to what a small pool holds', () => {
    expect(resolve({ numBlocks: 4, blockSize: 4 }).settings.maxModelLen).toBe(16)
  })
})
