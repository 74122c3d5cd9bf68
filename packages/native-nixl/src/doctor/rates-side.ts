/** One of the two processes that `doctor --rates` measures between; started by rates.ts with an IPC channel, and ends with it. */
import { once } from 'node:events'
import { createKernels } from '../kernels.ts'
import type { RateMessage, RateSideName } from './rates-messages.ts'
import { RateMeter } from './rates-meter.ts'
import { planPoints, rateBlockSizes, rateLimits } from './rates-plan.ts'
import { openPool } from './rates-pool.ts'
import { openRateTarget, type RateAnswer, type RateQuestion } from './rates-target.ts'

export interface RateSideOptions {
  /** Number of its GPU; null: host memory. */
  readonly device: number | null
  readonly totalBytes: number
}

function tell(message: RateMessage): void {
  process.send?.(message)
}

function fail(error: unknown): void {
  tell({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) })
}

async function runTarget(options: RateSideOptions): Promise<void> {
  const { facts, answer } = await openRateTarget({ ...options, blockSizes: rateBlockSizes })
  process.on('message', (message: RateMessage) => {
    if (message.kind !== 'ask') return
    answer(message.question).then((found) => tell({ kind: 'answer', answer: found }), fail)
  })
  tell({ kind: 'facts', facts })
}

async function ask(question: RateQuestion): Promise<RateAnswer> {
  const answered = once(process, 'message')
  tell({ kind: 'ask', question })
  const [message] = (await answered) as [Extract<RateMessage, { kind: 'answer' }>]
  return message.answer
}

async function runInitiator({ device, totalBytes }: RateSideOptions): Promise<void> {
  const [order] = (await once(process, 'message')) as [Extract<RateMessage, { kind: 'order' }>]
  const meter = await RateMeter.open({
    ...{ name: `rates-initiator-${process.pid}`, device, totalBytes, ask },
    ...{ pool: openPool(device, 2 * totalBytes), kernels: createKernels(), facts: order.facts },
  })
  tell({ kind: 'paths', paths: meter.paths })
  for (const point of planPoints(meter.paths).slice(order.doneCount)) {
    const result = await meter.measure(point, rateLimits.pointMs)
    tell({ kind: 'point', result, isStuck: meter.isStuck })
    if (meter.isStuck) return
  }
  tell({ kind: 'end' })
}

/** Runs until the parent closes the channel. */
export async function runRateSide(name: RateSideName, options: RateSideOptions): Promise<void> {
  if (process.send === undefined) throw new Error('doctor-rates is started by doctor only')
  process.on('disconnect', () => process.exit())
  try {
    await (name === 'target' ? runTarget(options) : runInitiator(options))
  } catch (error) {
    fail(error)
  }
}
