/** Metrics in Prometheus form: the contract's table, all of it, and nothing a wrong use could break. */
import { describe, expect, it } from 'vitest'
import { metricDefinitions, type MetricName } from '@kvferry/connector-api'
import { Counter, createMetrics } from '../src/index.ts'

const names = Object.keys(metricDefinitions) as MetricName[]

async function lines(metrics: { text(): Promise<string> }, name: string): Promise<string[]> {
  const text = await metrics.text()
  return text.split('\n').filter((line) => line.startsWith(name))
}

describe('the text', () => {
  it.each(names)('declares %s with its kind and help, under a valid name', async (name) => {
    const { kind, help } = metricDefinitions[name]
    const text = await createMetrics().text()
    expect(text).toContain(`# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`)
    expect(name).toMatch(/^kv_[a-z_]+$/)
    expect(name.endsWith('_total')).toBe(kind === 'counter')
  })

  it('has the right content type', () => {
    expect(createMetrics().contentType).toContain('text/plain; version=0.0.4')
  })
})

describe('what is recorded', () => {
  it('adds up, per label', async () => {
    const metrics = createMetrics()
    metrics.add('kv_transfer_bytes_total', 10, { direction: 'read' })
    metrics.add('kv_transfer_bytes_total', 5, { direction: 'read' })
    metrics.add('kv_transfer_bytes_total', 1, { direction: 'write' })
    metrics.add('kv_leases_granted_total')
    metrics.set('kv_leases_open', 7)
    metrics.set('kv_leases_open', 3)
    expect(await lines(metrics, 'kv_transfer_bytes_total')).toEqual([
      'kv_transfer_bytes_total{direction="read"} 15',
      'kv_transfer_bytes_total{direction="write"} 1',
    ])
    expect(await lines(metrics, 'kv_leases')).toEqual([
      'kv_leases_granted_total 1',
      'kv_leases_expired_total 0',
      'kv_leases_open 3',
    ])
  })

  it('falls into buckets from microseconds to the deadline of a transfer', async () => {
    const metrics = createMetrics()
    for (const seconds of [0.000_02, 0.002, 29]) {
      metrics.observe('kv_transfer_post_seconds', seconds, { direction: 'read' })
    }
    const buckets = await lines(metrics, 'kv_transfer_post_seconds_bucket')
    const counts = buckets.map((line) => Number(line.split(' ')[1]))
    expect(counts[0]).toBe(0)
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    expect(buckets.find((line) => line.includes('le="0.00003"'))).toMatch(/ 1$/)
    expect(buckets.find((line) => line.includes('le="0.003"'))).toMatch(/ 2$/)
    expect(buckets.find((line) => line.includes('le="30"'))).toMatch(/ 3$/)
  })

  it('is kept apart for two engines of one process', async () => {
    const [one, other] = [createMetrics(), createMetrics()]
    one.add('kv_leases_granted_total')
    expect(await lines(other, 'kv_leases_granted')).toEqual(['kv_leases_granted_total 0'])
  })

  it('can be joined by collectors of the HTTP packages', async () => {
    const metrics = createMetrics()
    const requests = new Counter({
      name: 'router_requests_total',
      help: 'x',
      registers: [metrics.registry],
    })
    requests.inc()
    expect(await lines(metrics, 'router_requests')).toEqual(['router_requests_total 1'])
  })
})

describe('a wrong use', () => {
  it.each<[string, (metrics: ReturnType<typeof createMetrics>) => void]>([
    ['a negative amount', (m) => m.add('kv_leases_granted_total', -1)],
    ['an unknown label', (m) => m.add('kv_loads_failed_total', 1, { nope: 'x' })],
    ['another kind', (m) => m.set('kv_leases_granted_total', 1)],
    ['an unknown name', (m) => m.add('kv_made_up_total' as MetricName)],
    ['a name of the prototype', (m) => m.add('constructor' as MetricName)],
    [
      'no number',
      (m) => m.observe('kv_transfer_post_seconds', 'x' as unknown as number, { direction: 'read' }),
    ],
    ['NaN', (m) => m.add('kv_leases_granted_total', NaN)],
  ])('(%s) is dropped and counted, never thrown', async (_, misuse) => {
    const metrics = createMetrics()
    expect(() => misuse(metrics)).not.toThrow()
    expect(await lines(metrics, 'kv_metric_misuses')).toEqual(['kv_metric_misuses_total 1'])
    expect(await lines(metrics, 'kv_leases_granted')).toEqual(['kv_leases_granted_total 0'])
  })
})
