/** How requests end, and when their blocks are anybody's again. */
import { describe, expect, it } from 'vitest'
import { requestTransitions } from '../src/core/request-state.ts'
import { Scheduling } from './support/scheduling.ts'

const counts = (engine: Scheduling) => {
  const { free, cached, leased, owned, quarantined } = engine.pool.counts()
  return { available: free + cached, leased, owned, quarantined }
}

describe('the end of a load', () => {
  function loading(promptTokenCount: number, offer = promptTokenCount, policy?: 'fail') {
    const engine = new Scheduling(policy === undefined ? {} : { loadFailurePolicy: policy })
    engine.offers.set('a', offer)
    const request = engine.add('a', promptTokenCount)
    engine.step()
    return { engine, request }
  }

  it('commits all blocks at once and reports back with none', () => {
    const { engine } = loading(10)
    engine.receive('a')
    engine.step()
    expect(engine.commits).toEqual([
      { requestId: 'a', external: 10, blockCount: 3 },
      { requestId: 'a', external: 0, blockCount: 3 },
    ])
  })

  it('leaves the last token of a whole prompt to be computed (7)', () => {
    const { engine } = loading(8)
    engine.receive('a')
    expect(engine.stepText()).toBe('a:7-8')
  })

  it('makes what was loaded findable for others, and not before (6)', () => {
    const { engine } = loading(8)
    engine.add('early', 9, 1, 'a')
    expect(engine.stepText()).toBe('early:0-9')
    engine.receive('a')
    engine.add('late', 9, 1, 'a')
    expect(engine.stepText()).toBe('a:7-8 late:8-9')
  })

  it('that failed goes back to the first invalid block (31)', () => {
    const { engine, request } = loading(14)
    engine.fail('a', request.blocks.slice(2, 3))
    expect(request.isRecomputed).toBe(true)
    expect(engine.stepText()).toBe('a:8-14')
  })

  it('that failed without blocks goes back to the local hit', () => {
    const engine = new Scheduling()
    engine.add('first', 4, 1, 'a')
    engine.step()
    engine.offers.set('a', 12)
    engine.add('a', 12)
    engine.step()
    engine.fail('a', [])
    expect(engine.stepText()).toBe('a:4-12')
  })

  it('that failed ends the request when the policy says so', () => {
    const { engine } = loading(10, 10, 'fail')
    engine.fail('a', [])
    expect(engine.ended).toEqual([{ requestId: 'a', reason: 'failed' }])
    expect(counts(engine)).toEqual({ available: 16, leased: 0, owned: 0, quarantined: 0 })
  })
})

describe('abort', () => {
  it('of a waiting request needs no blocks back', () => {
    const engine = new Scheduling()
    engine.add('a', 4)
    engine.lifecycle.abort('a' as never)
    expect(engine.ended).toEqual([{ requestId: 'a', reason: 'aborted' }])
    expect(engine.stepText()).toBe('')
  })

  it('of a running request frees its blocks', () => {
    const engine = new Scheduling()
    engine.add('a', 4, 9)
    engine.step()
    engine.lifecycle.abort('a' as never)
    expect(counts(engine)).toMatchObject({ available: 16, owned: 0 })
  })

  it('of a preempted request leaves the others alone', () => {
    const engine = new Scheduling({ blockCount: 4, isPrefixCachingOn: false })
    engine.add('a', 7, 6)
    engine.add('b', 7, 6)
    while (engine.stateOf('b') !== 'preempted') engine.step()
    engine.lifecycle.abort('b' as never)
    while (engine.table.size > 0) engine.step()
    expect(engine.ended.map(({ reason }) => reason)).toEqual(['aborted', 'length-capped'])
  })

  it('of a request whose load has ended frees its blocks', () => {
    const engine = new Scheduling()
    engine.offers.set('a', 8)
    engine.add('a', 8)
    engine.step()
    engine.receive('a')
    engine.lifecycle.abort('a' as never)
    expect(counts(engine)).toMatchObject({ available: 16, owned: 0 })
    expect(engine.stepText()).toBe('')
  })

  it('of a loading request keeps its blocks until the load has ended, well or not (34)', () => {
    const engine = new Scheduling()
    for (const id of ['a', 'b']) {
      engine.offers.set(id, 8)
      engine.add(id, 8)
    }
    engine.step()
    engine.lifecycle.abort('a' as never)
    engine.lifecycle.abort('b' as never)
    expect(counts(engine)).toMatchObject({ quarantined: 4, available: 12 })
    engine.receive('a')
    engine.fail('b', [])
    expect(counts(engine)).toMatchObject({ quarantined: 0, available: 16 })
    expect(engine.finishedHooks).toEqual(['a', 'b'])
  })

  it('of an answered request says that its handoff reached nobody, and leaves its blocks where they are', () => {
    const engine = new Scheduling()
    engine.delayFree.add('a')
    engine.add('a', 4)
    engine.add('without handoff', 4)
    engine.step()
    for (const id of ['a', 'without handoff', 'never heard of']) engine.lifecycle.abort(id as never)
    expect(engine.undelivered).toEqual(['a'])
    expect(engine.ended).toHaveLength(2)
    expect(counts(engine)).toMatchObject({ leased: 1 })
    engine.send('a')
    engine.lifecycle.abort('a' as never)
    expect(engine.undelivered).toEqual(['a'])
  })
})

describe('delayed free', () => {
  it('keeps the blocks until they are sent', () => {
    const engine = new Scheduling()
    engine.delayFree.add('a')
    engine.add('a', 6)
    engine.step()
    expect(engine.stateOf('a')).toBe('finished-waiting-for-send')
    expect(counts(engine)).toMatchObject({ leased: 2, owned: 0 })
    engine.send('a')
    expect(counts(engine)).toMatchObject({ leased: 0, available: 16 })
    expect(engine.stateOf('a')).toBe('gone')
  })

  it('and an open load: the blocks wait for both, in either order', () => {
    for (const order of ['receive-send', 'send-receive']) {
      const engine = new Scheduling()
      engine.offers.set('a', 8)
      engine.delayFree.add('a')
      engine.add('a', 8)
      engine.step()
      engine.lifecycle.abort('a' as never)
      if (order === 'receive-send') engine.receive('a')
      else engine.send('a')
      expect(counts(engine).available).toBe(14)
      if (order === 'receive-send') engine.send('a')
      else engine.receive('a')
      expect(counts(engine).available).toBe(16)
    }
  })
})

describe('broken promises of a connector', () => {
  it('are refused at once: reports about requests that hold nothing', () => {
    const engine = new Scheduling()
    engine.add('a', 4, 3)
    engine.step()
    expect(() => engine.receive('a')).toThrow(/which is running/)
    expect(() => engine.send('a')).toThrow(/which is running/)
    expect(() => engine.send('b')).toThrow(/holds nothing/)
  })

  it('are refused at once: a failed load that was not received', () => {
    const engine = new Scheduling()
    engine.offers.set('a', 4)
    engine.add('a', 4)
    engine.step()
    const failed = { requestId: 'a' as never, blockIds: [], error: new Error() as never }
    expect(() =>
      engine.lifecycle.applyWorkerOutput({ sent: [], received: [], failed: [failed] }),
    ).toThrow(/also reported as received/)
  })
})

describe('the table of states', () => {
  it('is obeyed: every change that it does not list throws', () => {
    const engine = new Scheduling()
    const request = engine.add('a', 4)
    expect(requestTransitions.waiting).not.toContain('load-ended')
    expect(() => request.enter({ kind: 'load-ended' })).toThrow(/can't go from waiting/)
    expect(requestTransitions.finished).toEqual([])
  })
})
