/** C1: the manifest, the options, and a life that never began. */
import type { ConnectorCapabilities } from '../../capabilities.ts'
import { EngineHost } from '../../testing/cluster/engine-host.ts'
import { createWorld } from '../../testing/cluster/world.ts'
import { ConnectorError } from '../../errors.ts'
import { assert, assertRefused } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

const kinds: Readonly<
  Record<
    Exclude<keyof ConnectorCapabilities, 'transferPaths' | 'keepsHistory'>,
    readonly unknown[] | 'count'
  >
> = {
  transferMode: ['pull', 'push', 'ticket'],
  dispatch: ['sequential', 'concurrent'],
  isBidirectional: [true, false],
  isProgressive: [true, false],
  tensorParallel: ['single', 'equal', 'mapped'],
  groupCountMax: 'count',
  supportsDifferentBlockSizes: [true, false],
  supportsDifferentLayouts: [true, false, undefined],
  supportsLora: [true, false],
  supportsMultimodal: [true, false],
  supportsParallelSampling: [true, false],
  stagesInHostMemory: [true, false, undefined],
}

export const manifest: ConnectorGroupRuns<'C1'> = {
  async 'C1.1'(context) {
    const { factory } = context.target
    assert.ok(factory.name.length > 0, 'a connector has a name')
    const before = structuredClone(factory.capabilities)
    for (const [name, values] of Object.entries(kinds)) {
      const value = before[name as keyof ConnectorCapabilities]
      const isKnown =
        values === 'count' ? Number.isInteger(value) && Number(value) >= 1 : values.includes(value)
      assert.ok(isKnown, `${name} is ${String(value)}`)
    }
    const paths = before.transferPaths ?? ['descriptors']
    assert.ok(paths.includes('descriptors'), 'every agent has descriptors')
    for (const path of paths) {
      assert.ok(['descriptors', 'slabs', 'ipc'].includes(path), `transferPaths has ${String(path)}`)
    }
    const cluster = await context.open()
    await context.serveWell(cluster)
    await cluster.world.clock.wait(cluster.engine('d0').host.shutdown(), 60_000)
    assert.deepEqual(factory.capabilities, before, 'the manifest changed')
  },
  async 'C1.2'({ target }) {
    const parse = (): unknown => target.factory.parseOptions({ ...target.options, noSuchOption: 1 })
    await assertRefused('an unknown option', 'ERR_KV_CONFIG', parse)
    try {
      parse()
    } catch (error) {
      assert.ok(ConnectorError.isInstance(error) && error.code === 'ERR_KV_CONFIG')
      assert.ok(error.details.field.includes('noSuchOption'), 'the option is named')
      assert.ok(error.details.remedy.length > 0, 'there is a remedy')
    }
  },
  async 'C1.3'({ target }) {
    const { factory } = target
    const defaults = factory.parseOptions({})
    assert.deepEqual(factory.parseOptions(defaults), defaults)
  },
  async 'C1.4'({ target }) {
    const world = createWorld(target)
    const host = new EngineHost(world, { engineId: 'p0', options: target.options })
    assert.deepEqual(host.collect(), { sent: [], received: [], failed: [] })
    await world.clock.wait(host.shutdown(), 60_000)
    await world.clock.wait(host.shutdown(), 60_000)
  },
  async 'C1.5'(context) {
    const cluster = await context.open()
    for (let count = 0; count < 5; count += 1) context.serve(cluster)
    await context.settle(cluster)
    for (const { host } of cluster.lives) {
      const samples = host.stats.flatMap(({ loads }) => loads.map(({ requestId }) => requestId))
      assert.equal(new Set(samples).size, samples.length, 'a load was sampled twice')
      host.stats.forEach(({ counters }, index) => {
        const before = host.stats[index - 1]?.counters ?? {}
        for (const [name, value] of Object.entries(counters)) {
          assert.ok(Number.isFinite(value) && value >= 0, `${name} is ${value}`)
          const isTotal = !/Open$|Quarantined$/.test(name)
          if (isTotal) assert.ok(value >= (before[name] ?? 0), `${name} fell to ${value}`)
        }
      })
    }
  },
}
