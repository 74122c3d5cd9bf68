/**
 * Halves of a connector with some of their methods replaced: how the suite looks over a connector's
 * shoulder, and how wrong connectors are made of right ones. The originals are called as they are.
 */
import type { ConnectorFactory, ConnectorScheduler, ConnectorWorker } from '../../connector.ts'
import type { SchedulerComponents, WorkerComponents } from '../../connector.ts'
import type { Rank } from '../../ids.ts'

/** Classes keep private fields, so their methods must be called on the original. */
export function delegate<T extends object>(original: T, replaced: Partial<T>): T {
  return new Proxy(original, {
    get(target, name) {
      if (Object.hasOwn(replaced, name)) return replaced[name as keyof T]
      const value: unknown = target[name as keyof T]
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value
    },
  })
}

export interface FactoryWraps {
  readonly scheduler?: (
    scheduler: ConnectorScheduler,
    components: SchedulerComponents,
  ) => Partial<ConnectorScheduler>
  readonly worker?: (
    worker: ConnectorWorker,
    components: WorkerComponents,
    rank: Rank,
  ) => Partial<ConnectorWorker>
  readonly schedulerComponents?: (components: SchedulerComponents) => SchedulerComponents
  readonly workerComponents?: (components: WorkerComponents) => WorkerComponents
}

/** The same connector with parts of its halves, or of what they are given, replaced. */
export function wrapFactory(factory: ConnectorFactory, wraps: FactoryWraps): ConnectorFactory {
  return {
    name: factory.name,
    capabilities: factory.capabilities,
    parseOptions: (options) => factory.parseOptions(options),
    createScheduler(given) {
      const components = wraps.schedulerComponents?.(given) ?? given
      const scheduler = factory.createScheduler(components)
      return delegate(scheduler, wraps.scheduler?.(scheduler, components) ?? {})
    },
    createWorker(given, rank) {
      const components = wraps.workerComponents?.(given) ?? given
      const worker = factory.createWorker(components, rank)
      return delegate(worker, wraps.worker?.(worker, components, rank) ?? {})
    },
  }
}
