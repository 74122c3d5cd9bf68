/** Random workloads: whatever arrives, fails and is given up, blocks are never lost and all requests end. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Scheduling, type SchedulingOptions } from './support/scheduling.ts'

type Action =
  | {
      readonly kind: 'add'
      readonly prompt: number
      readonly output: number
      readonly fill: number
    }
  | { readonly kind: 'add-load'; readonly prompt: number; readonly offered: number }
  | { readonly kind: 'step' }
  | { readonly kind: 'receive' | 'fail' | 'abort' | 'send'; readonly pick: number }

const small = fc.integer({ min: 1, max: 20 })
const pick = fc.nat(1_000)
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: 'step' } as const) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      prompt: small,
      output: fc.integer({ min: 1, max: 6 }),
      fill: fc.nat(2),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('add-load' as const), prompt: small, offered: small }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('receive' as const, 'fail' as const, 'abort' as const, 'send' as const),
      pick,
    }),
  },
)

const settings: fc.Arbitrary<SchedulingOptions> = fc.record({
  blockCount: fc.integer({ min: 8, max: 14 }),
  maxNumSeqs: fc.integer({ min: 1, max: 4 }),
  maxNumBatchedTokens: fc.integer({ min: 1, max: 12 }),
  isPrefixCachingOn: fc.boolean(),
  loadFailurePolicy: fc.constantFrom('recompute' as const, 'fail' as const),
})

class Workload {
  readonly engine: Scheduling
  addedCount = 0

  constructor(options: SchedulingOptions) {
    this.engine = new Scheduling(options)
  }

  perform(step: Action): void {
    switch (step.kind) {
      case 'step':
        this.#step()
        return
      case 'add':
        this.#add(step.prompt, step.output, 'abc'[step.fill] as string)
        return
      case 'add-load': {
        const id = this.#nextId()
        this.engine.offers.set(id, Math.min(step.offered, step.prompt))
        this.#add(step.prompt, 2, 'l')
        return
      }
      case 'receive':
        this.#with(step.pick, this.#loading(), (id) => this.engine.receive(id))
        return
      case 'fail':
        this.#with(step.pick, this.#loading(), (id) => {
          const blocks = this.engine.table.get(id as never)?.blocks ?? []
          this.engine.fail(id, blocks.slice(step.pick % (blocks.length + 1)))
        })
        return
      case 'send':
        this.#with(step.pick, this.#sending(), (id) => this.engine.send(id))
        return
      case 'abort':
        this.#with(step.pick, this.#ids(), (id) => this.engine.lifecycle.abort(id as never))
        this.engine.check()
    }
  }

  /** The world calms down: loads end, peers read, and then everything must have ended. */
  settle(): void {
    for (let step = 0; step < 3_000 && this.engine.table.size > 0; step++) {
      for (const id of this.#loading()) this.engine.receive(id)
      for (const id of this.#sending()) this.engine.send(id)
      this.#step()
    }
  }

  #nextId(): string {
    return `r${this.addedCount}`
  }

  #add(prompt: number, output: number, fill: string): void {
    const id = this.#nextId()
    if (this.addedCount % 3 === 0) this.engine.delayFree.add(id)
    this.addedCount++
    this.engine.add(id, prompt, output, fill)
  }

  #step(): void {
    const { chunks } = this.engine.step()
    for (const { request, start, end } of chunks) {
      expect(end).toBeGreaterThan(start)
      expect(request.blocks.length * 4).toBeGreaterThanOrEqual(request.isAnswered ? 0 : end)
    }
  }

  #with(chosen: number, ids: readonly string[], act: (id: string) => void): void {
    const id = ids[chosen % Math.max(1, ids.length)]
    if (id !== undefined) act(id)
  }

  #ids(): string[] {
    return [...this.engine.table.all()].map(({ requestId }) => requestId)
  }

  #loading(): string[] {
    return [...this.engine.table.all()]
      .filter(({ state: { kind } }) =>
        ['waiting-for-remote-kv', 'finished-waiting-for-receive'].includes(kind),
      )
      .map(({ requestId }) => requestId)
  }

  #sending(): string[] {
    return [...this.engine.table.all()]
      .filter(({ state: { kind } }) => kind === 'finished-waiting-for-send')
      .map(({ requestId }) => requestId)
  }
}

describe('scheduler and lifecycle under random workloads', () => {
  it('lose no block, serve no block twice, and end every request exactly once', () => {
    fc.assert(
      fc.property(settings, fc.array(action, { maxLength: 80 }), (options, actions) => {
        const workload = new Workload(options)
        for (const step of actions) workload.perform(step)
        workload.settle()
        const { engine } = workload
        expect(engine.table.size).toBe(0)
        expect(engine.pool.availableCount).toBe(engine.pool.blockCount)
        const ended = engine.ended.map(({ requestId }) => requestId)
        expect(ended).toHaveLength(workload.addedCount)
        expect(new Set(ended).size).toBe(workload.addedCount)
        expect(engine.finishedHooks).toHaveLength(workload.addedCount)
      }),
      { numRuns: 300 },
    )
  })
})
