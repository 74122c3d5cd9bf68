/**
 * What the engine says about itself: peer description, statistics, debug view, metrics text. Reads the
 * parts of a core and changes nothing. Runs on the core's thread, perhaps while kernels compute a step;
 * what it reads changes only between steps.
 */
import { WIRE_VERSION } from '@kvferry/connector-api'
import type { AssembledCore } from './create-core.ts'
import type { DebugView, EngineStats, PeerView } from './core-messages.ts'
import { requestTransitions, type RequestStateKind } from './request-state.ts'

const stateKinds = Object.keys(requestTransitions) as readonly RequestStateKind[]

export function describePeer({ config, ports, caches }: AssembledCore): PeerView {
  const { transfer } = ports
  const capabilities = transfer?.factory.capabilities
  return {
    connector: transfer?.factory.name ?? null,
    transferMode: capabilities?.transferMode ?? null,
    dispatch: capabilities?.dispatch ?? null,
    engineId: config.engineId,
    incarnation: config.incarnation,
    role: config.settings.role,
    sideChannel: transfer === null ? null : { ...transfer.sideChannel.address },
    tpSize: config.settings.tpSize,
    ppSize: 1,
    blockTokens: config.settings.blockTokens,
    supportsDifferentBlockSizes: capabilities?.supportsDifferentBlockSizes ?? false,
    tensorParallel: capabilities?.tensorParallel ?? 'equal',
    model: caches.layout.model,
    wireVersion: WIRE_VERSION,
  }
}

export function describeStats(core: AssembledCore): EngineStats {
  const { config, ports, caches, table } = core
  const { user, system } = process.cpuUsage()
  const rssBytes = process.memoryUsage.rss()
  const historyBytes = core.history.reservedBytes()
  const states = stateKinds.map((kind) => [kind, table.countIn(kind)] as const)
  return {
    engineId: config.engineId,
    role: config.settings.role,
    connector: ports.transfer?.factory.name ?? null,
    agent: ports.agentKind,
    transports: ports.transports(),
    hooks: config.settings.hooks,
    kvScale: config.settings.kvScale,
    ...core.accounts.totals(),
    cpuSeconds: (user + system) / 1e6,
    rssBytes,
    blocks: core.pool.counts(),
    blockSecondsHeld: table.held.totalBlockSeconds(ports.clock.now()),
    requests: Object.fromEntries(states) as Record<RequestStateKind, number>,
    verification: { blocksLoaded: core.lifecycle.blocksLoaded, ...core.forward.counters() },
    agentCounters: sumCounters(core),
    connectorCounters: core.connectorCounters(),
    memoryBytes: {
      deviceKv: caches.ranks.reduce((sum, { memory }) => sum + memory.sizeBytes, 0),
      deviceHistory: historyBytes.device,
      hostHistory: historyBytes.host,
      slabs: 0,
      rss: rssBytes,
    },
  }
}

/** Over the agents of all ranks. */
function sumCounters({ ports }: AssembledCore): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const agent of ports.transfer?.agents ?? []) {
    for (const [name, value] of Object.entries(agent.counters() as object)) {
      sums[name] = (sums[name] ?? 0) + (value as number)
    }
  }
  return sums
}

/** Of rank 0. */
export function describeDebug({ caches, ports, table }: AssembledCore): DebugView {
  const address = ports.addressOf(caches.memory)
  return {
    pid: process.pid,
    regions: caches.layout.regions.map((region) => ({
      name: region.name,
      address: address === null ? null : addOffset(address, region.offsetBytes),
      blockSizeBytes: region.blockSizeBytes,
      blockStrideBytes: region.blockStrideBytes,
      blockCount: region.blockCount,
    })),
    requests: [...table.all()].map(({ requestId, state, blocks }) => ({
      requestId,
      state: state.kind,
      blockIds: blocks,
    })),
  }
}

const addOffset = (address: string, offsetBytes: number): string =>
  `0x${(BigInt(address) + BigInt(offsetBytes)).toString(16)}`

/** The connector's metrics, and the engine's own in the same form. */
export async function describeMetrics(core: AssembledCore): Promise<string> {
  const stats = describeStats(core)
  const { total, ...blocks } = stats.blocks
  const families: readonly [string, string, string, readonly [string, number][]][] = [
    ['kvferry_engine_steps_total', 'counter', 'Engine steps', [['', stats.steps]]],
    [
      'kvferry_engine_modelled_seconds_total',
      'counter',
      'Modelled compute time',
      [['', stats.modelledMs / 1_000]],
    ],
    [
      'kvferry_engine_overrun_seconds_total',
      'counter',
      'Work beyond the modelled time of its step',
      [['', stats.overrunMs / 1_000]],
    ],
    [
      'kvferry_engine_stall_seconds_total',
      'counter',
      'Connector hooks that no forward hid',
      [['', stats.stepStallMs / 1_000]],
    ],
    ['kvferry_engine_blocks_total', 'gauge', 'Blocks of the pool', [['', total]]],
    ['kvferry_engine_blocks', 'gauge', 'Blocks by who holds them', labelled('state', blocks)],
    ['kvferry_engine_requests', 'gauge', 'Requests by state', labelled('state', stats.requests)],
    [
      'kvferry_engine_mismatched_blocks_total',
      'counter',
      'Blocks whose bytes were wrong',
      [['', stats.verification.mismatchedBlocks]],
    ],
  ]
  const own = families.flatMap(([name, kind, help, series]) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${kind}`,
    ...series.map(([labels, value]) => `${name}${labels} ${value}`),
  ])
  return `${await core.ports.metrics.text()}\n${own.join('\n')}\n`
}

const labelled = (label: string, values: Readonly<Record<string, number>>): [string, number][] =>
  Object.entries(values).map(([name, value]) => [`{${label}="${name}"}`, value])
