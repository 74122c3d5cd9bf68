/**
 * The Metrics port over prom-client, on a registry of its own: two engines in one process don't mix.
 * Names, labels and help come from the contract's table; only the buckets are chosen here. HTTP packages
 * serve `text()` and put their own collectors on `registry` (the classes are exported for that).
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { metricDefinitions, type MetricName, type Metrics } from '@kvferry/connector-api'

/** A post of one block takes some 10 µs, a long prompt over TCP seconds; deadlines are 30 s. */
const durationBucketsSeconds = [
  0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30,
]

export interface RuntimeMetrics extends Metrics {
  /** For further collectors: `new Counter({ …, registers: [metrics.registry] })`. */
  readonly registry: Registry
  /** Value of the HTTP header `content-type` that goes with `text()`. */
  readonly contentType: string
  /** All metrics in the Prometheus text format. */
  text(): Promise<string>
}

type Collector =
  | { readonly kind: 'counter'; readonly collector: Counter }
  | { readonly kind: 'gauge'; readonly collector: Gauge }
  | { readonly kind: 'histogram'; readonly collector: Histogram }

function createCollector(name: MetricName, registry: Registry): Collector {
  const { kind, help, labels } = metricDefinitions[name]
  const options = { name, help, labelNames: [...labels], registers: [registry] }
  switch (kind) {
    case 'counter':
      return { kind, collector: new Counter(options) }
    case 'gauge':
      return { kind, collector: new Gauge(options) }
    case 'histogram':
      return { kind, collector: new Histogram({ ...options, buckets: durationBucketsSeconds }) }
  }
}

/** Never throws from `add`, `set` or `observe`: wrong uses are counted in `kv_metric_misuses_total`. */
export function createMetrics(): RuntimeMetrics {
  const registry = new Registry()
  const names = Object.keys(metricDefinitions) as MetricName[]
  const collectors = new Map(names.map((name) => [name, createCollector(name, registry)]))
  const misuses = new Counter({
    name: 'kv_metric_misuses_total',
    help: 'Observations dropped because the name, kind, label or value was wrong (a bug)',
    registers: [registry],
  })

  const record = (
    name: MetricName,
    kind: Collector['kind'],
    value: number,
    write: (to: Collector) => void,
  ) => {
    const found = collectors.get(name)
    try {
      // NaN would pass, and make the sum NaN for the rest of the process's life.
      if (found?.kind !== kind || !Number.isFinite(value)) misuses.inc()
      else write(found)
    } catch {
      // A measurement must never end a request; prom-client throws for labels and values it refuses.
      misuses.inc()
    }
  }

  return {
    registry,
    contentType: registry.contentType,
    text: () => registry.metrics(),
    add(name, amount = 1, labels = {}) {
      record(name, 'counter', amount, ({ collector }) => (collector as Counter).inc(labels, amount))
    },
    set(name, value, labels = {}) {
      record(name, 'gauge', value, ({ collector }) => (collector as Gauge).set(labels, value))
    },
    observe(name, value, labels = {}) {
      record(name, 'histogram', value, ({ collector }) =>
        (collector as Histogram).observe(labels, value),
      )
    },
  }
}

export { Counter, Gauge, Histogram, Registry } from 'prom-client'
