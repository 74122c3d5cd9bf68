/**
 * What both legs share: send to a chosen engine, and where each leg may go its own way, ask one other when
 * that engine could not be reached at all, or says that it takes nothing now (so nothing has happened
 * yet). Failures are counted here, once. Called by the legs and by dispatch strategies.
 */
import { assert } from '@kvferry/connector-api'
import type { DispatchContext } from './dispatch.ts'
import type { EngineAnswer } from './engine-client.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import { LastingSignal } from './lasting-signal.ts'
import { RouterError, type Leg } from './router-error.ts'
import { isBusyStatus, upstreamError } from './upstream-error.ts'

export interface LegCall {
  readonly leg: Leg
  readonly body: string
  /** The engine's work, as estimated. */
  readonly tokens: number
  /** An answer that has begun is read on for so long after the request's end; null: it ends with the request. */
  readonly graceMs: number | null
}

/** How a leg's call reaches an engine: the dispatch strategy's choice. */
export type SendCall = (call: LegCall) => Promise<LegAnswer>

export interface LegAnswer {
  readonly engine: Engine
  /** As it was when the request was sent: a poll may find the next incarnation meanwhile. */
  readonly peer: EnginePeer
  readonly answer: EngineAnswer
}

/** @throws RouterError: the scope's reason, no engine, not reachable (503), connection lost (502). */
export async function sendToLeg(
  context: DispatchContext,
  choose: (excluded: ReadonlySet<Engine>) => Engine,
  call: LegCall,
): Promise<LegAnswer> {
  const first = choose(new Set())
  let taken: LegAnswer
  try {
    taken = await sendTo(context, first, call)
  } catch (error) {
    const second = isBeforeSend(error) ? chooseAnother(choose, first) : null
    if (second === null) throw error
    return sendAgain(context, second, call)
  }
  const other = isBusyStatus(taken.answer.statusCode) ? chooseAnother(choose, first) : null
  if (other === null) return taken
  await taken.answer.body.dump().catch(() => {})
  // It has answered that it took nothing.
  context.scope.reached.delete(call.leg)
  return sendAgain(context, other, call)
}

/** Its answer counts, whatever it is: two engines are enough for one request. */
function sendAgain(context: DispatchContext, engine: Engine, call: LegCall): Promise<LegAnswer> {
  context.metrics.retry(call.leg)
  return sendTo(context, engine, call)
}

const isBeforeSend = (error: unknown): boolean => error instanceof RouterError && error.isBeforeSend

function chooseAnother(
  choose: (excluded: ReadonlySet<Engine>) => Engine,
  first: Engine,
): Engine | null {
  try {
    return choose(new Set([first]))
  } catch {
    return null
  }
}

/**
 * Sends to this engine and no other; one that cannot be reached is out of rotation at once.
 * @throws RouterError: the scope's reason, not reachable (503), connection lost (502).
 */
export async function sendTo(
  context: DispatchContext,
  engine: Engine,
  call: LegCall,
): Promise<LegAnswer> {
  try {
    return await sendOnce(context, engine, call)
  } catch (error) {
    const failure = legError(context, call.leg, engine.url, error)
    if (failure.isBeforeSend) engine.suspect(failure.message)
    throw failure
  }
}

async function sendOnce(
  { scope, request, headers }: DispatchContext,
  engine: Engine,
  { leg, body, tokens, graceMs }: LegCall,
): Promise<LegAnswer> {
  scope.throwIfAborted()
  const { peer } = engine
  assert(peer !== null, 'an engine that is not up was chosen')
  const lasting = graceMs === null ? null : new LastingSignal(scope, graceMs)
  const isTakenOff = engine.takeOn(tokens)
  const isOver = (): void => {
    isTakenOff()
    lasting?.end()
  }
  try {
    const call = {
      method: 'POST',
      path: request.path,
      headers,
      body,
      signal: lasting?.signal ?? scope.signal,
      onStart: () => void scope.reached.add(leg),
    } as const
    const answer = await engine.client.send(call)
    lasting?.headCame()
    engine.showedLife(scope.clock.now())
    // Its last byte was read, or its connection is gone.
    answer.body.once('close', isOver)
    return { engine, peer, answer }
  } catch (error) {
    isOver()
    throw error
  }
}

/** Types and counts a failure of a leg. What the scope was aborted for wins over what it caused. */
export function legError(
  { scope, metrics, logger }: DispatchContext,
  leg: Leg,
  url: string,
  error: unknown,
): RouterError {
  const failure = scope.signal.aborted ? scope.reason : upstreamError(leg, url, error)
  const isOurs =
    failure.isConsequence || failure.outcome === 'client-gone' || failure.outcome === 'draining'
  if (!isOurs) {
    metrics.upstreamError(leg, failure.code)
    const fields = { requestId: scope.requestId, leg, url, code: failure.code }
    logger.warn('engine call failed', { ...fields, reason: failure.message })
  }
  return failure
}
