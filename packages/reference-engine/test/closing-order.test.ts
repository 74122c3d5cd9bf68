/** The end of an engine: in order, within one deadline, whatever part is stuck. */
import { describe, expect, it } from 'vitest'
import { silentLogger, type Logger } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { ClosingOrder } from '../src/core/closing-order.ts'
import { engineLimits } from '../src/limits.ts'

function setup() {
  const clock = createSimClock()
  const warnings: unknown[] = []
  const logger: Logger = {
    ...silentLogger,
    warn: (message, fields) => void warnings.push([message, fields]),
  }
  const order = new ClosingOrder(clock, logger)
  const closed: string[] = []
  const add = (what: string, close: (ms: number) => Promise<void> | void = () => {}, share = 1) =>
    order.add({
      what,
      share,
      close(ms) {
        closed.push(`${what} ${ms}`)
        return close(ms)
      },
    })
  return { add, clock, closed, order, warnings }
}

const never = () => new Promise<void>(() => {})

describe('closing', () => {
  it('goes backwards; what comes last comes last', async () => {
    const { add, closed, order } = setup()
    add('first')
    add('second')
    order.addLast({ what: 'memory', close: () => void closed.push('memory') })
    add('third')
    await order.close({ deadlineMs: 1_000 })
    expect(closed).toEqual(['third 1000', 'second 1000', 'first 1000', 'memory'])
  })

  it('leaves a stuck part behind at its share of the deadline, and closes the others in what is left', async () => {
    const { add, clock, closed, order, warnings } = setup()
    add('agent')
    add('worker', never, 0.8)
    const done = order.close({ deadlineMs: 1_000 })
    await clock.advance(800)
    await done
    expect(closed).toEqual(['worker 800', 'agent 200'])
    expect(warnings).toEqual([
      ['not closed in time, left behind', { what: 'worker', deadlineMs: 800 }],
    ])
  })

  it('ends soon after the deadline although everything is stuck', async () => {
    const { add, clock, closed, order } = setup()
    for (const what of ['c', 'b', 'a']) add(what, never)
    const done = order.close({ deadlineMs: 1_000 })
    await clock.advance(1_000 + 2 * engineLimits.closeGraceMs)
    await done
    expect(closed).toEqual(['a 1000', 'b 100', 'c 100'])
  })

  it('goes on when a part fails', async () => {
    const { add, closed, order, warnings } = setup()
    add('first')
    add('second', () => {
      throw new Error('broken')
    })
    add('third', () => Promise.reject(new Error('broken too')))
    await order.close({ deadlineMs: 10 })
    expect(closed).toHaveLength(3)
    expect(warnings).toHaveLength(2)
  })
})
