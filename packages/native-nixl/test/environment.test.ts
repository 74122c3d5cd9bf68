import { expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { describeWithNixl } from './nixl-availability.ts'

interface Report {
  readonly transports: readonly string[]
  readonly listeners: readonly string[]
  readonly inherited: number
}

async function report(environment: Record<string, string> = {}) {
  const child = new Fixture('environment', { environment })
  try {
    const value = await child.message<Report>()
    expect((await child.exit(60_000)).code).toBe(0)
    return { ...value, output: child.output }
  } finally {
    await child.kill()
  }
}

/** 127.0.0.1 in the byte order of /proc/net/tcp. */
const loopback = '0100007F:'

describeWithNixl(() => {
  test('settings made in a worker thread reach UCX', async () => {
    const { transports, listeners, inherited, output } = await report()
    expect(transports).toEqual(['tcp'])
    expect(listeners.length).toBeGreaterThan(0)
    expect(listeners.filter((address) => !address.startsWith(loopback))).toEqual([])
    expect(inherited).toBe(0)
    // UCX logs, but not there.
    expect(output).toBe('')
  })

  test('the user’s own environment wins', async () => {
    const { transports } = await report({ UCX_TLS: 'sm,self,tcp' })
    expect(transports).toContain('cma')
  })

  test('a log path inherited from a parent of ours is not used', async () => {
    const { transports, output } = await report({ UCX_LOG_FILE: '/proc/1/fd/999' })
    expect(transports).toEqual(['tcp'])
    expect(output).toBe('')
  })
})
