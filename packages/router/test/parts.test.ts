/** The pure parts alone: cutting events, taking turns, reading configuration. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import { EventCutter } from '../src/event-cutter.ts'
import { routerLimits } from '../src/limits.ts'
import { parseRouterConfig } from '../src/options.ts'
import { createLeastLoad, createRoundRobin, type Candidate } from '../src/policy.ts'

describe('EventCutter', () => {
  const anyText = fc.array(fc.constantFrom('data: ', '\n', '\n\n', '\r\n', 'x', '[DONE]', 'ü', ':'))

  it('changes no byte and cuts only after a blank line, however the bytes arrive', () => {
    fc.assert(
      fc.property(anyText, fc.array(fc.nat(50)), (parts, cuts) => {
        const bytes = Buffer.from(parts.join(''))
        const cutter = new EventCutter()
        const out: Buffer[] = []
        let from = 0
        for (const to of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
          if (to <= from || to > bytes.length) continue
          const whole = cutter.push(bytes.subarray(from, to))
          if (whole.length > 0) expect(whole.toString('latin1')).toMatch(/\n\r?\n$/)
          out.push(whole)
          from = to
        }
        const isInside = cutter.isInsideEvent
        expect(isInside).toBe(false)
        out.push(cutter.takeRest())
        expect(Buffer.concat(out).equals(bytes.subarray(0, from))).toBe(true)
      }),
    )
  })

  it.each([
    ['data: 1\n\ndata: [DONE]\n\n', true],
    ['data:[DONE]\r\n\r\n', true],
    ['data: [DONE]', true],
    ['data: [DONE]\n\n: bye\n\n', true],
    ['data: {"error":{"message":"x"}}\n\n', true],
    ['data: 1\n\n', false],
    ['data: "[DONE]"\n\n', false],
    ['data: [DONE]\n\ndata: 1\n\n', false],
    [': [DONE]\n\n', false],
    ['', false],
  ])('knows whether %j is a whole stream', (text, expected) => {
    for (const size of [1, 1_000]) {
      const cutter = new EventCutter()
      for (let i = 0; i < text.length; i += size) cutter.push(Buffer.from(text.slice(i, i + size)))
      cutter.takeRest()
      expect(cutter.hasEnded).toBe(expected)
    }
  })

  it.each([
    ['data: 1\n\ndata: {"error":{"message":"x"}}\n\n', true],
    ['data: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n', true],
    ['data: {"error":{"message":"x"}}\n\ndata: 1\n\ndata: [DONE]\n\n', false],
    ['data: {"text":"error"}\n\ndata: [DONE]\n\n', false],
    ['', false],
  ])('knows whether %j ends with the engine’s error', (text, expected) => {
    const cutter = new EventCutter()
    cutter.push(Buffer.from(text))
    expect(cutter.hasFailed).toBe(expected)
  })

  it('does not hold an endless event', () => {
    const cutter = new EventCutter()
    const chunk = Buffer.alloc(routerLimits.heldEventSizeBytesMax / 2, 'x')
    const out = [chunk, chunk, chunk].map((part) => cutter.push(part).length)
    expect(out).toEqual([0, 0, chunk.length * 3])
    expect(cutter.isInsideEvent).toBe(true)
    cutter.push(Buffer.from('\n\ndata: 1\n\n'))
    expect(cutter.isInsideEvent).toBe(false)
  })
})

describe('round robin', () => {
  const [a, b, c] = [0, 1, 2].map((index) => ({ index, outstandingTokens: 0 })) as [
    Candidate,
    Candidate,
    Candidate,
  ]

  it('keeps turns when an engine leaves and comes back', () => {
    const policy = createRoundRobin()
    const picks = [[a, b, c], [a, b, c], [a, b], [a, b, c], [a, b, c], [c]].map((candidates) =>
      policy.pick(candidates),
    )
    expect(picks).toEqual([a, b, a, b, c, c])
  })
})

describe('least load', () => {
  const at = (...loads: number[]): Candidate[] =>
    loads.map((outstandingTokens, index) => ({ index, outstandingTokens }))

  it('takes the engine with the fewest tokens, and turns among equals', () => {
    const policy = createLeastLoad()
    const picks = [at(5, 3, 9), at(5, 5, 5), at(5, 5, 5), at(0, 1, 0), at(7)]
    expect(picks.map((candidates) => policy.pick(candidates).index)).toEqual([1, 2, 0, 2, 0])
  })
})

describe('configuration', () => {
  const minimal = { prefill: ['http://127.0.0.1:1'], decode: ['http://127.0.0.1:2'] }

  it('has safe defaults', () => {
    expect(parseRouterConfig(minimal)).toMatchObject({
      host: '127.0.0.1',
      port: 8_000,
      connector: null,
      policy: 'round-robin',
    })
  })

  it('takes off trailing slashes and reads declared engines', () => {
    const declared = { url: 'http://p/', engineId: 'p0', sideChannel: '[::1]:5600', tp: 4 }
    const parsed = parseRouterConfig({ ...minimal, prefill: [declared] })
    expect(parsed.prefills).toEqual([
      {
        url: 'http://p',
        declared: { engineId: 'p0', sideChannel: { host: '::1', port: 5600 }, tpSize: 4 },
      },
    ])
  })

  it.each([
    [{ ...minimal, prefil: [] }, 'prefil', 'did you mean prefill?'],
    [{ ...minimal, deadlines: { totalMS: 1 } }, 'deadlines.totalMS', 'did you mean totalMs?'],
    [{ decode: minimal.decode }, 'prefill', 'prefill is missing: name 1 to 64 engines'],
    [{ ...minimal, decode: [] }, 'decode', 'name 1 to 64 engines'],
    [{ ...minimal, decode: ['localhost:1'] }, 'decode[0]', 'http:// or https://'],
    [{ ...minimal, prefill: ['ftp://x'] }, 'prefill[0]', 'http:// or https://'],
    [
      { ...minimal, prefill: [{ url: 'http://x', sideChannel: 'x' }] },
      'prefill[0].sideChannel',
      'host:port',
    ],
    [
      { ...minimal, prefill: [{ url: 'http://x', engineID: 'x' }] },
      'prefill[0].engineID',
      'engineId',
    ],
    [{ ...minimal, connector: 'ticket' }, 'connector', 'use one of pull, push, xavier'],
    [{ ...minimal, policy: 'random' }, 'policy', 'use round-robin or least-load'],
    [{ ...minimal, port: 70_000 }, 'port', ''],
    [{ ...minimal, deadlines: { totalMs: -1 } }, 'deadlines.totalMs', ''],
    [null, 'configuration', ''],
  ])('refuses %j and names %s', (input, field, part) => {
    let caught: unknown
    try {
      parseRouterConfig(input)
    } catch (error) {
      caught = error
    }
    if (!ConnectorError.isInstance(caught) || caught.code !== 'ERR_KV_CONFIG') throw caught
    expect(caught.details.field).toBe(field)
    expect(caught.message).toContain(part)
    expect(caught.message).not.toMatch(/Invalid input|expected/)
  })

  it('names everything that is wrong at once', () => {
    const input = { prefill: [], decoder: [], port: 'x', deadlines: { totalMs: 0 } }
    expect(() => parseRouterConfig(input)).toThrow(
      /^configuration: 5 problems(?=[^]*prefill is)(?=[^]*decode is missing)(?=[^]*decoder is)(?=[^]*port is "x")(?=[^]*totalMs is 0)/,
    )
  })

  it('refuses anything with a typed error', () => {
    fc.assert(
      fc.property(fc.anything(), (input) => {
        try {
          parseRouterConfig(input)
        } catch (error) {
          expect(ConnectorError.isInstance(error)).toBe(true)
        }
      }),
    )
  })
})
