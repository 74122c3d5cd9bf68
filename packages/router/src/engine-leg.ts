/**
 * What both legs share: choose an engine, send, and when it could not be reached at all (so nothing has
 * happened yet) ask one other. Failures are counted here, once. Called by the legs only.
 */
import { assert } from '@kvferry/connector-api'
import type { DispatchContext } from './dispatch.ts'
import type { EngineAnswer } from './engine-client.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import type { RouterError, Leg } from './router-error.ts'
import { upstreamError } from './upstream-error.ts'

export interface LegAnswer {
  readonly engine: Engine
  /** As it was when the request was sent: a poll may find the next incarnation meanwhile. */
  readonly peer: EnginePeer
  readonly answer: EngineAnswer
}

/** @throws RouterError: the scope's reason, no engine, not reachable (503), connection lost (502). */
export async function sendToLeg(
  context: DispatchContext,
  leg: Leg,
  choose: (excluded: ReadonlySet<Engine>) => Engine,
  body: string,
): Promise<LegAnswer> {
  const first = choose(new Set())
  try {
    return await sendOnce(context, first, body)
  } catch (error) {
    const failure = legError(context, leg, first.url, error)
    if (!failure.isBeforeSend) throw failure
    first.suspect(failure.message)
    const second = chooseAnother(choose, first)
    if (second === null) throw failure
    context.metrics.retry(leg)
    try {
      return await sendOnce(context, second, body)
    } catch (secondError) {
      const secondFailure = legError(context, leg, second.url, secondError)
      if (secondFailure.isBeforeSend) second.suspect(secondFailure.message)
      throw secondFailure
    }
  }
}

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

async function sendOnce(
  { scope, request, headers }: DispatchContext,
  engine: Engine,
  body: string,
): Promise<LegAnswer> {
  scope.throwIfAborted()
  const { peer } = engine
  assert(peer !== null, 'an engine that is not up was chosen')
  const answer = await engine.client.send({
    method: 'POST',
    path: request.path,
    headers,
    body,
    signal: scope.signal,
  })
  return { engine, peer, answer }
}

/** Types and counts a failure of a leg. What the scope was aborted for wins over what it caused. */
export function legError(
  { scope, metrics, logger }: DispatchContext,
  leg: Leg,
  url: string,
  error: unknown,
): RouterError {
  const failure = scope.signal.aborted ? scope.reason : upstreamError(leg, url, error)
  const isOurs = failure.outcome === 'client-gone' || failure.outcome === 'draining'
  if (!isOurs) {
    metrics.upstreamError(leg, failure.code)
    const fields = { requestId: scope.requestId, leg, url, code: failure.code }
    logger.warn('engine call failed', { ...fields, reason: failure.message })
  }
  return failure
}
