/** Which tokens a step computes: vLLM's rules, one by one. */
import { describe, expect, it } from 'vitest'
import { Scheduling } from './support/scheduling.ts'

describe('a step', () => {
  it('runs prompts whole within the budget, in order of arrival', () => {
    const engine = new Scheduling()
    engine.add('a', 5, 2)
    engine.add('b', 3, 2)
    expect(engine.stepText()).toBe('a:0-5 b:0-3')
    expect(engine.stepText()).toBe('a:5-6 b:3-4')
    expect(engine.stepText()).toBe('')
    expect(engine.ended).toEqual([
      { requestId: 'a', reason: 'length-capped' },
      { requestId: 'b', reason: 'length-capped' },
    ])
  })

  it('cuts prompts into chunks of the budget, running requests first', () => {
    const engine = new Scheduling({ maxNumBatchedTokens: 4 })
    engine.add('a', 2, 3)
    engine.add('b', 9, 1)
    expect(engine.stepText()).toBe('a:0-2 b:0-2')
    expect(engine.stepText()).toBe('a:2-3 b:2-5')
    expect(engine.stepText()).toBe('a:3-4 b:5-8')
    expect(engine.stepText()).toBe('b:8-9')
  })

  it('runs no more sequences than allowed', () => {
    const engine = new Scheduling({ maxNumSeqs: 2 })
    for (const id of ['a', 'b', 'c']) engine.add(id, 2, 2)
    expect(engine.stepText()).toBe('a:0-2 b:0-2')
    expect(engine.stepText()).toBe('a:2-3 b:2-3')
    expect(engine.stepText()).toBe('c:0-2')
  })

  it('computes only what the prefix cache has not, and always the last token', () => {
    const engine = new Scheduling()
    engine.add('a', 8, 1, 'same')
    engine.step()
    engine.add('b', 8, 1, 'same')
    expect(engine.stepText()).toBe('b:4-8')
    engine.add('c', 9, 1, 'same')
    expect(engine.stepText()).toBe('c:8-9')
  })

  it('shares nothing with prefix caching off', () => {
    const engine = new Scheduling({ isPrefixCachingOn: false })
    engine.add('a', 8, 1, 'same')
    engine.step()
    engine.add('b', 8, 1, 'same')
    expect(engine.stepText()).toBe('b:0-8')
  })
})

describe('admission', () => {
  it('waits until the whole prompt fits, and lets nobody pass (8)', () => {
    const engine = new Scheduling({ blockCount: 4 })
    engine.add('a', 10, 3)
    engine.add('b', 8, 1)
    engine.add('c', 1, 1)
    expect(engine.stepText()).toBe('a:0-10')
    expect(engine.stepText()).toBe('a:10-11')
    expect(engine.stepText()).toBe('a:11-12')
    expect(engine.stepText()).toBe('b:0-8 c:0-1')
  })

  it('reserves the blocks that a load in flight will still need (33)', () => {
    const engine = new Scheduling({ blockCount: 6 })
    engine.offers.set('a', 4)
    engine.add('a', 16)
    engine.add('b', 12)
    // The load holds one block and will need three more: b, which needs three, must wait.
    expect(engine.stepText()).toBe('')
    expect(engine.stateOf('b')).toBe('waiting')
    engine.receive('a')
    expect(engine.stepText()).toBe('a:4-16')
    expect(engine.stepText()).toBe('b:0-12')
  })

  it('reserves the blocks of a prompt that is in the middle of its chunks', () => {
    const engine = new Scheduling({ blockCount: 5, maxNumBatchedTokens: 6 })
    engine.add('a', 16)
    engine.step()
    engine.add('b', 8)
    expect(engine.stepText()).toBe('a:6-12')
    expect(engine.stepText()).toBe('a:12-16')
    expect(engine.stepText()).toBe('b:0-6')
  })

  it('passes over a request whose connector does not know yet', () => {
    const engine = new Scheduling()
    engine.offers.set('a', null)
    engine.add('a', 4)
    engine.add('b', 4)
    const plan = engine.step()
    expect(plan.chunks.map(({ request }) => request.requestId)).toEqual(['b'])
    expect(plan.isRetryNeeded).toBe(true)
    engine.offers.set('a', 4)
    expect(engine.step().isRetryNeeded).toBe(false)
    expect(engine.stateOf('a')).toBe('waiting-for-remote-kv')
  })

  it('asks such a request first again', () => {
    const engine = new Scheduling({ maxNumSeqs: 1 })
    engine.offers.set('a', null)
    for (const id of ['a', 'b', 'c']) engine.add(id, 4)
    expect(engine.stepText()).toBe('b:0-4')
    engine.offers.set('a', 0)
    expect(engine.stepText()).toBe('a:0-4')
  })
})

describe('preemption', () => {
  it('takes the youngest, which starts over when there is room again', () => {
    const engine = new Scheduling({ blockCount: 4, isPrefixCachingOn: false })
    engine.add('a', 7, 6)
    engine.add('b', 7, 6)
    expect(engine.stepText()).toBe('a:0-7 b:0-7')
    expect(engine.stepText()).toBe('a:7-8 b:7-8')
    const plan = engine.step()
    expect(plan.preemptedRequestIds).toEqual(['b'])
    expect(plan.chunks.map(({ request }) => request.requestId)).toEqual(['a'])
    expect(engine.stateOf('b')).toBe('preempted')
    for (let i = 0; i < 3; i++) engine.step()
    // Its two tokens of output are computed again with its prompt.
    expect(engine.stepText()).toBe('b:0-9')
    while (engine.table.size > 0) engine.step()
    expect(engine.ended.map(({ requestId }) => requestId)).toEqual(['a', 'b'])
  })

  it('lets nobody else in within the same step', () => {
    const engine = new Scheduling({ blockCount: 6, isPrefixCachingOn: false })
    engine.add('a', 7, 6)
    engine.add('b', 7, 6)
    engine.offers.set('load', 8)
    engine.add('load', 8)
    engine.step()
    engine.step()
    engine.receive('load')
    expect(engine.stepText()).toBe('a:8-9')
    expect(engine.stepText()).toBe('a:9-10 load:7-8')
  })

  it('does not touch a request that waits for its load', () => {
    const engine = new Scheduling({ blockCount: 4, isPrefixCachingOn: false })
    engine.offers.set('load', 8)
    engine.add('load', 8)
    engine.add('a', 7, 6)
    engine.step()
    engine.step()
    expect(engine.step().preemptedRequestIds).toEqual(['a'])
    expect(engine.stateOf('load')).toBe('waiting-for-remote-kv')
    expect(engine.stepText()).toBe('')
    engine.receive('load')
    expect(engine.stepText()).toBe('load:7-8')
    expect(engine.stepText()).toBe('a:0-9')
  })

  it('ends the standstill of ended loads that hold all blocks (33)', () => {
    const engine = new Scheduling({ blockCount: 6, isPrefixCachingOn: false })
    engine.add('r', 4, 6)
    engine.step()
    for (const id of ['a', 'b']) {
      engine.offers.set(id, 4)
      engine.add(id, 8)
    }
    engine.step()
    // The running one grew into what was reserved for the loads, then ended with a lease on it.
    engine.delayFree.add('r')
    while (engine.stateOf('r') === 'running') engine.step()
    const taken = engine.pool.take(engine.pool.availableCount) ?? []
    const holder = engine.add('outside', 1)
    holder.blocks = taken
    engine.table.waiting.splice(engine.table.waiting.indexOf(holder), 1)
    engine.receive('a', 'b')
    expect(engine.step().preemptedRequestIds).toEqual(['b'])
    expect(engine.stepText()).toBe('a:4-8')
  })
})
