/**
 * What both legs share: choose an engine, send, and when it could not be reached at all, or says that it
 * takes nothing now (so nothing has happened yet), ask one other. Failures are counted here, once. Called
 * by the legs only.
 */
import { assert } from '@kvferry/connector-api'
import type { DispatchContext } from './dispatch.ts'
import type { EngineAnswer } from './engine-client.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import type { RouterError, Leg } from './router-error.ts'
import { isConnectFailure, upstreamError } from './upstream-error.ts'

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
  let taken: LegAnswer
  try {
    taken = await sendOnce(context, leg, first, body)
  } catch (error) {
    const failure = legError(context, leg, first.url, error)
    if (!failure.isBeforeSend) throw failure
    first.suspect(failure.message)
    const second = chooseAnother(choose, first)
    if (second === null) throw failure
    return sendAgain(context, leg, second, body)
  }
  const other = isBusy(taken.answer) ? chooseAnother(choose, first) : null
  if (other === null) return taken
  await taken.answer.body.dump().catch(() => {})
  return sendAgain(context, leg, other, body)
}

/** Its answer counts, whatever it is: two engines are enough for one request. */
async function sendAgain(
  context: DispatchContext,
  leg: Leg,
  engine: Engine,
  body: string,
): Promise<LegAnswer> {
  context.metrics.retry(leg)
  try {
    return await sendOnce(context, leg, engine, body)
  } catch (error) {
    const failure = legError(context, leg, engine.url, error)
    if (failure.isBeforeSend) engine.suspect(failure.message)
    throw failure
  }
}

/** "Not now", said before anything was done. */
const isBusy = ({ statusCode }: EngineAnswer): boolean => statusCode === 429 || statusCode === 503

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
  leg: Leg,
  engine: Engine,
  body: string,
): Promise<LegAnswer> {
  scope.throwIfAborted()
  const { peer } = engine
  assert(peer !== null, 'an engine that is not up was chosen')
  scope.reached.add(leg)
  try {
    const call = {
      method: 'POST',
      path: request.path,
      headers,
      body,
      signal: scope.signal,
    } as const
    const answer = await engine.client.send(call)
    engine.showedLife(scope.clock.now())
    return { engine, peer, answer }
  } catch (error) {
    if (isConnectFailure(error)) scope.reached.delete(leg)
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
  const isOurs = failure.outcome === 'client-gone' || failure.outcome === 'draining'
  if (!isOurs) {
    metrics.upstreamError(leg, failure.code)
    const fields = { requestId: scope.requestId, leg, url, code: failure.code }
    logger.warn('engine call failed', { ...fields, reason: failure.message })
  }
  return failure
}
