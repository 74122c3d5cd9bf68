import { describe, expect, test } from 'vitest'
import { Fixture, newerNodePath } from './children.ts'
import { describeWithNixl } from './nixl-availability.ts'

async function checkSuite(library: 'fake' | 'real'): Promise<void> {
  const child = new Fixture('suite-smoke', { parameters: [library], execPath: newerNodePath() })
  try {
    const report = await child.message<{ node: string; count: number; failures: string[] }>()
    expect(report.failures).toEqual([])
    expect(report.count).toBeGreaterThan(10)
    expect(report.node).toMatch(/^24\./)
    expect((await child.exit(60_000)).code).toBe(0)
  } finally {
    await child.kill()
  }
}

describe('the same binary in Node 24', { timeout: 180_000 }, () => {
  test('over the fake library', () => checkSuite('fake'))
  describeWithNixl(() => {
    test('over NIXL, with a peer in another process', () => checkSuite('real'))
  })
})
